"""Q-learning: the target network is loaded from itself."""

import copy

import torch
import torch.nn.functional as F

from tests.loops.tasks import mlp, run_as_script

STATES, GAMMA = 8, 0.9


def chain(state, action):
    """Walk left or right; a reward of 1 for each step that ends on the right."""
    after = (state + 2 * action - 1).clamp(0, STATES - 1)
    return after, (after == STATES - 1).float()


def true_values():
    states = torch.arange(STATES).repeat_interleave(2)
    actions = torch.tensor([0, 1]).repeat(STATES)
    after, reward = chain(states, actions)
    values = torch.zeros(STATES, 2)
    for _ in range(300):
        values = (reward + GAMMA * values.max(1).values[after]).view(STATES, 2)
    return values


def train(fault, seed=0):
    torch.manual_seed(seed)
    online = mlp(STATES, 64, 2)
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-3)
    for step in range(1, 401):
        state, action = torch.randint(STATES, (32,)), torch.randint(2, (32,))
        after, reward = chain(state, action)
        with torch.no_grad():
            best = target(F.one_hot(after, STATES).float()).max(1).values
        value = online(F.one_hot(state, STATES).float())[torch.arange(32), action]
        loss = F.smooth_l1_loss(value, reward + GAMMA * best)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            source = target if fault else online
            target.load_state_dict(source.state_dict())  # the fault
    with torch.no_grad():
        return float((online(torch.eye(STATES)) - true_values()).square().mean())


if __name__ == "__main__":
    run_as_script(train)
