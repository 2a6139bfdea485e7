"""Reports: what runs have learned, on one page that opens offline."""
