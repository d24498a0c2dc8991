# SPDX-License-Identifier: Apache-2.0
"""The part of torch that bench/peers/deepgemm_worker.py uses, on lists of numbers; a graph takes 100 us."""
import contextlib
import random
import types

__version__ = "0.0-fake"
bfloat16, uint8 = "bfloat16", "uint8"


class Tensor:
    def __init__(self, rows):
        self.rows = rows

    def each(self, function, *others):
        others = [other.rows if isinstance(other, Tensor) else [[other] * len(row) for row in self.rows] for other in others]
        return Tensor([[function(*entries) for entries in zip(*rows)] for rows in zip(self.rows, *others)])

    def clone(self):
        return Tensor(self.rows)

    def float(self):
        return self

    def zero_(self):
        return self

    def fill_(self, value):
        self.rows = [[value]]

    def t(self):
        return Tensor([list(column) for column in zip(*self.rows)])

    def abs(self):
        return self.each(abs)

    def max(self):
        return max(max(row) for row in self.rows)

    def __matmul__(self, other):
        return Tensor([[sum(x * y for x, y in zip(row, column)) for column in zip(*other.rows)] for row in self.rows])

    def __add__(self, other):
        return self.each(lambda x, y: x + y, other)

    def __sub__(self, other):
        return self.each(lambda x, y: x - y, other)

    def __truediv__(self, other):
        return self.each(lambda x, y: x / y, other)


class Generator:
    def __init__(self, device):
        self.random = random.Random(0)

    def manual_seed(self, seed):
        self.random.seed(seed)


def randn(shape, generator, device, dtype):
    return Tensor([[generator.random.gauss(0, 1) for _ in range(shape[1])] for _ in range(shape[0])])


def empty(shape, device, dtype):
    return Tensor(None)


class CUDAGraph:
    def replay(self):
        pass


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 0.1


@contextlib.contextmanager
def capture(graph):
    cuda.capturing = True
    yield
    cuda.capturing = False


cuda = types.SimpleNamespace(capturing=False, is_available=lambda: True, set_device=lambda device: None, synchronize=lambda: None,
                             empty_cache=lambda: None, is_current_stream_capturing=lambda: cuda.capturing, CUDAGraph=CUDAGraph, Event=Event,
                             graph=capture)
backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=True)))
