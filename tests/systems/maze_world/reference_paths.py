"""Paths as the reference simulator finds them: Dijkstra's algorithm in Python."""

import heapq

import numpy as np

from gpicljax.systems.maze_world.experts import planning


def search(entry, starts):
    """Lowest costs by Dijkstra's algorithm; `entry` is infinite where nothing can go."""
    costs = np.full(entry.shape, np.inf)
    heap = [(0, *start) for start in starts]
    while heap:
        cost, x, y = heapq.heappop(heap)
        if cost >= costs[x, y]:
            continue
        costs[x, y] = cost
        for dx, dy in planning.NEIGHBOURS:
            i, j = x + dx, y + dy
            if 0 <= i < entry.shape[0] and 0 <= j < entry.shape[1] and np.isfinite(entry[i, j]):
                heapq.heappush(heap, (cost + entry[i, j], i, j))
    return costs


def path_back(costs, target):
    """The reference's path, from the start to a target."""
    path, turn, x, y = [tuple(target)], 0, *target
    while costs[x, y] > 0:
        i, j = x + planning.NEIGHBOURS[turn][0], y + planning.NEIGHBOURS[turn][1]
        turn = (turn + 1) % 4
        if 0 <= i < len(costs) and 0 <= j < len(costs) and costs[i, j] < costs[x, y]:
            x, y = i, j
            path.insert(0, (x, y))
    return path
