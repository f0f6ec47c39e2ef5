"""A real sshd for the tests, which benchmarks use too."""

from __future__ import annotations

from tests.shared.sshd import SSHD, LoopbackSshd, loopback_sshd, make_key

__all__ = ["SSHD", "LoopbackSshd", "loopback_sshd", "make_key"]
