"""One file per method; all solve the same `Setup`."""

from gpde.methods.base import AbstractMethod as AbstractMethod
from gpde.methods.consensus.method import Consensus as Consensus
from gpde.methods.full_batch.method import FullBatch as FullBatch
from gpde.methods.mini_batch.method import MiniBatch as MiniBatch
