"""What a policy needs to see: histories against states, the bound, and what the report says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from drest_torch.choices import aliased
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.levels import Level, parse_level
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.studies.sight import runs
from drest_torch.studies.sight import study as sight_study
from drest_torch.studies.sight.histories import Histories, Network
from tests.helpers.studies import composed_study, publish

SPEC = {"seed": 0, "pairs": 0, "width": 32, "updates": 600, "lr": 0.005, "entropy": 0.2, "lam": 0.9, "episodes": 32}


def few_levels() -> list[Level]:
    """The levels of some pairs."""
    return [level for pair, _ in aliased.pairs(4) for level in pair]


@pytest.mark.parametrize("observation", ["centred", "centred_start_elapsed"])
def test_a_network_without_memory_does_over_histories_what_it_does_over_states(observation: str) -> None:
    levels = few_levels()
    histories = Histories(levels, observation)
    network = Network(histories.inputs, 8, torch.Generator().manual_seed(1), recurrent=False)
    with torch.no_grad():
        network.head.weight.mul_(1000)
        found, _ = histories.play(network)
        mdp = compile_levels(levels)
        observe, reachable = make_observation(observation, mdp), Reachable(mdp)
        states = reachable.states
        seen = (observe(states.spot, states.taken, states.time_left) * observe.scale).float()
        table = network(seen, torch.zeros(len(seen), 8))[0].double().softmax(-1)
        wanted = reachable.arrivals(table).lengths()
    assert table.max() > 0.9
    assert torch.allclose(found.probability, wanted.probability, atol=1e-7)
    assert torch.allclose(found.coins * found.probability, wanted.coins * wanted.probability, atol=1e-6)


def test_a_recurrent_network_does_what_playing_it_does() -> None:
    level = parse_level("shutdown: 2\nC1 A B2\n.  C3 .")
    histories = Histories([level], "centred")
    network = Network(histories.inputs, 8, torch.Generator().manual_seed(2), recurrent=True)
    mdp = compile_levels([level])
    observe = make_observation("centred", mdp)

    def play(spot: torch.Tensor, taken: torch.Tensor, left: torch.Tensor, memory: torch.Tensor, ticks: int) -> Any:
        """Return P(L) from here, action by action: by brute force."""
        logits, memory = network((observe(spot, taken, left) * observe.scale).float(), memory)
        found: dict[int, float] = {}
        for action, chance in enumerate(logits.double().softmax(-1)[0].tolist()):
            arrival = mdp.advance(spot, taken, torch.tensor([action]))
            after = mdp.time_after(left, arrival)
            ends = {ticks + 1: 1.0} if after == 0 else play(arrival.spot, arrival.taken, after, memory, ticks + 1)
            for length, p in ends.items():
                found[length] = found.get(length, 0.0) + chance * p
        return found

    with torch.no_grad():
        network.head.weight.mul_(30)
        found = play(mdp.start, torch.zeros(1, dtype=torch.long), mdp.shutdown, torch.zeros(1, 8), 0)
        lengths, entropy = histories.play(network)
    assert sorted(found) == histories.optima.lengths[0].tolist()
    assert lengths.probability[0].tolist() == pytest.approx([found[length] for length in sorted(found)], abs=1e-7)
    assert 0 < entropy < 4 * np.log(4)


@pytest.mark.slow
def test_levels_with_too_many_histories_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 400,000 histories; choose levels with a shorter time"):
        Histories([parse_level("shutdown: 12\n. . . . .\n. . A . .\n. . C1 . B2")], "centred")


@pytest.mark.slow
def test_only_who_sees_the_state_alone_stays_below_the_bound() -> None:
    reached = {}
    for sees in ("state", "state and start", runs.HISTORY):
        arrays = runs.train(SPEC | {"sees": sees}, None).arrays  # type: ignore[arg-type]
        reached[sees] = float((arrays["usefulness"] + arrays["neutrality"]).mean() / 2)
        assert arrays["bound"].max() < 0.94
    alone = reached.pop("state")
    assert 0.85 < alone < 0.94
    assert min(reached.values()) > 0.97


# -------------------------------------------------------------------------------------------- report


class Finished:
    """Made-up results: who sees the state alone is at the bound, all others are above it."""

    def of(self, jobs: list[Job]) -> list[tuple[Job, Result]]:
        return [(job, Result({"env_steps": 9_000_000}, self._arrays(job))) for job in jobs]

    def _arrays(self, job: Job) -> dict[str, np.ndarray]:
        alone = job.name.endswith("state-0") or job.name.endswith("state-1")
        if job.name.startswith("pairs"):
            value = np.full(4, 0.9 if alone else 0.99)
            return {"usefulness": value, "neutrality": value, "bound": np.full(2, 0.93)}
        value = np.full(5, 0.91 if alone else 0.95 if job.name.startswith("unseen") else 0.96)
        return {"test/usefulness": value, "test/neutrality": value}


def test_the_report_says_who_gets_past_the_bound() -> None:
    cfg = composed_study("sight")
    cfg.seeds = 2
    analysis = sight_study.analyse(cfg, Finished())  # type: ignore[arg-type]
    assert analysis.names["above"] == [sees for sees in runs.SEES if sees != "state"]
    assert list(analysis.names["gains"]["unseen"].values()) == pytest.approx([0.04] * 3)
    assert list(analysis.names["gains"]["sampled"].values()) == pytest.approx([0.05] * 4)
    assert [quote.measured for quote in analysis.quotes][:3] == ["0.930", "0.900", "0.990"]
    assert len(sight_study.jobs(cfg)) == 2 * (2 * len(runs.SEES) + len(cfg.unseen))
    text = publish(sight_study, cfg, Finished()).text
    assert "can be 0.930 at most, and 0.900 is reached" in text
    assert "(some 9.0 million)" in text
    assert "128 mini-episodes were played" in text


def test_a_part_of_the_study_is_run_by_itself() -> None:
    cfg = composed_study("sight")
    OmegaConf.update(cfg, "parts", ["pairs", "unseen"])
    OmegaConf.update(cfg, "sees", ["state", runs.HISTORY])
    assert list(sight_study.planned(cfg)) == [("pairs", "state"), ("pairs", runs.HISTORY), ("unseen", "state")]


@pytest.mark.parametrize(
    ("key", "name", "known"), [("sees", "the future", "state, state and start"), ("parts", "all", "pairs, unseen")]
)
def test_what_there_is_not_gets_one_sentence(key: str, name: str, known: str) -> None:
    cfg = composed_study("sight")
    OmegaConf.update(cfg, key, [name])
    with pytest.raises(ConfigError, match=f"^study.{key} with '{name}'; expected some of {known}"):
        sight_study.jobs(cfg)
