"""Jobs: named by what they train, found again as they were left, never done twice."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import pytest

from sgrl.algorithms.sac_config import SACConfig
from sgrl.experiments.runner import Job, make_job, output_to_log, run_job
from sgrl.training.checkpoint import list_checkpoints
from sgrl.training.loop import train
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings
from tests.training.edit import edit_settings
from tests.training.tiny import TINY, with_changes


def tiny_job(runs: Path, **changes: object) -> Job:
    return make_job(with_changes(TINY, **changes), "tiny", runs)


def processes(job: Job) -> int:
    """That have trained in its folder."""
    return len(Run(job.folder).versions()["processes"])


def test_names_follow_from_what_is_trained() -> None:
    runs = Path("runs")
    name = tiny_job(runs).name
    assert tiny_job(runs, threads=7, device="cuda", keep=9, checkpoint_every=5).name == name
    others = [{"seed": 1}, {"steps": 401}, {"yaw": 0.0}, {"minutes": 5.0}, {"init_from": Path("x")}]
    names = {tiny_job(runs, **changes).name for changes in others}
    assert len(names | {name}) == len(others) + 1
    collection = make_job(
        TrainSettings(bodies=("3d_cwhh++",), method="swat+hn", algorithm="td3"), "", runs
    )
    assert collection.name.startswith("swatphn-3d_cwhhpp-td3-v1-seed0-")
    assert collection.folder.parent == runs
    assert collection.log.parent == runs / "logs"
    custom = make_job(
        TrainSettings(bodies=("3d_cwhh++",), method="my.package:Net", algorithm="td3"), "", runs
    )
    assert custom.name.startswith("my.package_Net-")


def test_a_job_is_trained_once(tmp_path: Path) -> None:
    job = pickle.loads(pickle.dumps(tiny_job(tmp_path)))
    assert job.state().phase == "missing"
    run_job(job)
    state = job.state()
    assert (state.phase, state.steps) == ("done", 400)
    assert state.seconds > 0
    run_job(job)
    assert processes(job) == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "logs"] == [job.name]


def test_a_job_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    job = tiny_job(tmp_path)
    train(job.settings)  # a job that is done has no replay to go on with
    shutil.rmtree(list_checkpoints(job.folder / "checkpoints")[-1])
    state = job.state()
    assert (state.phase, state.steps) == ("partial", 300)
    run_job(job)
    assert job.state().phase == "done"
    assert processes(job) == 2


def test_what_is_done_and_has_dropped_its_replay_is_not_resumed(tmp_path: Path) -> None:
    job = tiny_job(tmp_path)
    run_job(job)
    with pytest.raises(ValueError, match="after a finished training of a grid: start a new run"):
        train(TrainSettings(resume=job.folder, steps=500))
    started = train(with_changes(TINY, init_from=job.folder, runs=tmp_path, utd_ratio=0.0))
    assert Run(started).settings().init_from == job.folder


def test_a_job_whose_time_is_up_is_done(tmp_path: Path) -> None:
    job = tiny_job(tmp_path, steps=10**6, minutes=0.001, buffer_size=1000)
    run_job(job)
    state = job.state()
    assert state.phase == "done"
    assert state.steps < 10**6
    assert state.seconds >= 0.06


def test_something_else_in_the_folder_is_refused(tmp_path: Path) -> None:
    job = tiny_job(tmp_path)
    job.folder.mkdir()
    with pytest.raises(ValueError, match="not a run"):
        job.state()
    job.folder.rmdir()
    run_job(job)
    edit_settings(Run(job.folder), envs_per_body=3)
    with pytest.raises(ValueError, match=r"other settings: envs_per_body is 3, not 2"):
        job.state()


def test_a_run_of_before_sizes_were_recorded(tmp_path: Path) -> None:
    job = tiny_job(tmp_path, network=None, utd_ratio=0.0, steps=120)
    run_job(job)
    assert job.state().phase == "done"
    edit_settings(Run(job.folder), network=None)
    assert job.state().phase == "done"


def test_output_goes_to_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job = tiny_job(tmp_path)
    for word in ("one", "two"):
        with output_to_log(job):
            os.write(1, f"{word}\n".encode())
    os.write(1, b"three\n")
    assert capfd.readouterr().out == "three\n"
    assert job.log.read_text() == "one\ntwo\n"


def test_a_job_on_a_body_of_unequal_sides_is_found_again(tmp_path: Path) -> None:
    """A network of one body can't learn that body's image: the run records what was resolved."""
    job = make_job(
        TrainSettings(
            bodies=("3d_walker_5_left_knee",),
            method="monolithic+tn",
            algorithm="sac",
            steps=300,
            envs_per_body=4,
            eval_every=0,
            threads=1,
            config=SACConfig(utd_ratio=0.0, learning_starts=200, compile="no"),
        ),
        "walker",
        tmp_path,
    )
    run_job(job)
    assert Run(job.folder).settings().config.mirror is False
    assert job.state().phase == "done"
