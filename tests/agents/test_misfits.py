"""Levels that an agent cannot observe: the sentence names the level, and its size or object that is new."""

import pytest

from drest_torch.agents.misfits import misfit
from drest_torch.agents.specification import AgentSpec, Origin, check_alike
from drest_torch.algos.networks.base import requirements
from drest_torch.algos.networks.spec import TABLE, MapView, PolicySpec
from drest_torch.envs.levels import find_levels, parse_level, world
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward

DOOR = parse_level("shutdown: 4\nA > C2 .\n. B2 . .", name="one_way")
CHANCE = parse_level("shutdown: 4\nA . C2\n. B2@0.5 .", name="unsure")
LOTTERY = parse_level("lottery a: 1/3 C4 +0 | 1/3 C0 +0 | 1/3 C1 +1\nshutdown: 3\nA La .\n. . B2", name="fair")
LARGE = parse_level("shutdown: 4\nA . C2 . . .\n. B2 . . . .", name="long")
THREE = parse_level("shutdown: 2\nA C1 B2 . C2 B2 C3", name="three_lengths")
PLANES = ("wall", "coin", "delay")
OBSERVED = {
    **{"mlp": "centred", "symmetric": "centred_start", "recurrent": "grid"},
    **{"convolutional": "grid_start", "planning": "grid"},
}
"""An observation of each network that can play several levels."""
NETWORKS = [*OBSERVED]
LIMITED = [name for name in NETWORKS if not requirements(name).reads_maps]
"""Networks with an input for each cell of their largest map."""


def spec(network="mlp", rows=5, columns=5, **values):
    """Return the specification of a policy."""
    view = {"observation": OBSERVED.get(network, "vector"), "planes": PLANES, "time_steps": 16, "features": ()}
    sees = MapView(rows=rows, columns=columns, **{key: values.pop(key, value) for key, value in view.items()})
    usual = {"width": 8, "depth": 1, "activation": "relu", "private_bits": 0, "shape": (6,), "scale": (1.0,)}
    return PolicySpec(network=network, outputs=4, sees=sees, **usual | values)


@pytest.mark.parametrize("network", NETWORKS)
def test_smaller_maps_fit(network):
    assert misfit(spec(network, rows=7, columns=7), find_levels("paper")) is None


@pytest.mark.parametrize("network", LIMITED)
def test_a_larger_map_is_named_with_its_size(network):
    assert misfit(spec(network), [world("example"), LARGE]).startswith(
        "the agent was trained on maps of at most 5 × 5 and cannot be evaluated on long, a map of 2 × 6; choose smaller"
    )


def test_a_network_that_reads_maps_has_no_largest_map():
    assert misfit(spec("convolutional"), [LARGE]) is None


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    ("level", "sentence", "remedy"),
    [
        (DOOR, "the level one_way has one-way doors, which this agent does not observe", "on levels with them"),
        (CHANCE, "the level unsure has buttons that work by chance, which this", "with levels.by_chance=true"),
        (LOTTERY, "the level fair has lotteries, which this agent", "with levels.outcomes=3"),
    ],
    ids=["door", "chance", "lottery"],
)
def test_an_unobserved_object_is_named(network, level, sentence, remedy):
    message = misfit(spec(network), [world("example"), level])
    assert message.startswith(sentence)
    assert message.endswith(remedy)


@pytest.mark.parametrize("network", NETWORKS)
def test_objects_of_training_need_not_be_in_a_level(network):
    features = ("chance", "door", "lottery 1")
    assert misfit(spec(network, features=features), find_levels("paper")) is None
    assert misfit(spec(network, features=features), [DOOR, CHANCE]) is None


def test_more_outcomes_than_in_training_are_named():
    message = misfit(spec(features=("lottery 1", "lottery 2")), [LOTTERY])
    assert message.startswith("the level fair has lotteries with 3 or more outcomes, which")
    assert message.endswith("levels.outcomes=3")


def test_an_object_of_a_later_version_is_named():
    message = misfit(spec(planes=("wall", "coin")), [world("example")])
    assert message.startswith("the level example has buttons, which this agent does not observe")


@pytest.mark.parametrize("observation", ["centred_elapsed", "centred_start_elapsed"])
def test_luck_does_not_fit_an_observation_of_the_elapsed_time(observation):
    policy = spec(observation=observation, features=("chance",))
    assert misfit(policy, [world("example")]) is None
    assert misfit(policy, [CHANCE]).startswith("the level unsure has buttons that work by chance, and this agent")


@pytest.mark.parametrize("network", NETWORKS)
def test_more_lengths_than_in_training_fit(network):
    assert misfit(spec(network, rows=7, columns=7), [THREE]) is None


# ---------------------------------------------------------------------------------- a single level


@pytest.mark.parametrize("network", ["mlp", TABLE])
def test_an_agent_of_one_level_names_the_number_of_levels(network):
    policy = spec(network, observation="vector", planes=())
    assert misfit(policy, [world("example")]) is None
    assert misfit(policy, find_levels("paper")).startswith("the agent observes a single level (policy.observation=")


def test_an_agent_of_one_level_names_the_number_of_objects():
    policy = spec(observation="vector", planes=(), shape=(3,))
    message = "the agent was trained on a level with 1 coin or button and cannot be evaluated on example, which has 4"
    assert misfit(policy, [world("example")]).startswith(message)


def test_a_table_names_a_larger_map():
    policy = spec(TABLE, rows=1, columns=5, shape=(4,))
    assert "at most 1 × 5 and cannot be evaluated on long, a map of 2 × 6" in misfit(policy, [LARGE])


# ---------------------------------------------------------------------------------- the agent to start from


@pytest.mark.parametrize(
    ("source", "run", "message"),
    [
        (spec(), spec(rows=7, columns=7), "^start_from=A was trained on maps of at most 5 × 5, and the maps of this"),
        (spec(), spec(features=("door",)), "^start_from=A does not observe one-way doors, which levels of this run"),
        (spec(features=("door",)), spec(), "^start_from=A observes one-way doors, which no level of this run has"),
        (spec(), spec(depth=2), "^start_from=A has a policy of another kind; add policy.depth=1"),
    ],
    ids=["size", "new", "missing", "depth"],
)
def test_an_agent_to_start_from_names_what_differs(source, run, message):
    origin = Origin(algorithm="ppo", reward="drest", place="example", lengths=(), seed=0, sampled=None)
    with pytest.raises(ConfigError, match=message):
        check_alike("A", AgentSpec(source, Reward(), origin), run)


def test_an_agent_that_reads_maps_starts_on_larger_ones():
    origin = Origin(algorithm="ppo", reward="drest", place="example", lengths=(), seed=0, sampled=None)
    check_alike("A", AgentSpec(spec("convolutional"), Reward(), origin), spec("convolutional", rows=9, columns=9))
