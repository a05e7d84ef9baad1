"""On paper: what of a step is computing and what is talking, for base and big, from 8 to 1,024 GPUs.

    python benchmarks/simulate.py
    python benchmarks/simulate.py --preset big --tokens 8192 --network 50

A step computes 6 P t operations on each GPU (2 for each weight and token forwards, 4 backwards; Kaplan et al. 2020,
section 2.1) and then sums P gradients over all of them. All figures follow from the formulae below and from the
assumptions that are printed with them; nothing is measured here. docs/scale.md says what to make of them.
"""

import argparse
from dataclasses import dataclass, replace

from figures import table
from qkv.models import PRESETS, TransformerConfig, parameter_count

VOCABULARY = 37_000  # of the paper, section 5.1
FORMATS = {"float32": 4, "bfloat16": 2}  # bytes of a gradient
GPUS = (8, 16, 64, 256, 1024)
STATE = 16  # bytes of a weight in float32 with its gradient and Adam's two moments


@dataclass(frozen=True)
class Cluster:
    """Hosts of several GPUs: fast wires inside, slow ones between."""

    in_host: int = 8
    operations: float = 125e12  # a second: 40 % of an A100's 312 in bfloat16
    inside: float = 300e9  # bytes a second between the GPUs of a host, each way
    network: float = 25e9  # bytes a second in and out of a host: 200 Gbit/s
    latency: float = 10e-6  # seconds of a message between hosts
    memory: float = 80e9  # bytes of a GPU


@dataclass(frozen=True)
class Job:
    """A model and how much of a batch each GPU has."""

    name: str
    parameters: float
    d_model: int
    reductions: int  # sums of activations in a forward of tensor parallelism: 2 in an encoder block, 3 in a decoder's
    tokens: int = 4096  # of the target, and as many of the source, on each GPU in a step
    critical: float = 400_000  # tokens of a batch beyond which more of them teach little more

    @classmethod
    def of(cls, preset: str, tokens: int = 4096) -> "Job":
        c = TransformerConfig(vocab_size=VOCABULARY, **PRESETS[preset])
        return cls(preset, parameter_count(c), c.d_model, 2 * c.encoder_layers + 3 * c.decoder_layers, tokens)


def compute(job: Job, cluster: Cluster) -> float:
    """Seconds of forward and backward on one GPU: 6 P t / operations."""
    return 6 * job.parameters * job.tokens / cluster.operations


def ring(size: float, count: int, bandwidth: float, latency: float = 0.0) -> float:
    """Seconds of a sum over `count` members of a ring: each sends 2 (n - 1) / n of the bytes, in 2 (n - 1) messages."""
    return 2 * (count - 1) / count * size / bandwidth + 2 * (count - 1) * latency


def all_reduce(size: float, gpus: int, cluster: Cluster) -> float:
    """Seconds of a sum over all GPUs: over those of a host, each with its share of the bytes; of these over all hosts,
    by the host's one wire; and back."""
    hosts = max(1, gpus // cluster.in_host)
    inside = ring(size, min(gpus, cluster.in_host), cluster.inside)
    return inside + ring(size, hosts, cluster.network, cluster.latency)


def efficiency(computing: float, talking: float, hidden: float = 0.0) -> float:
    """The share of a step that is computing, if at most `hidden` seconds of talking go on beside it."""
    return computing / (computing + max(0.0, talking - hidden))


def learning(gpus: int, job: Job) -> float:
    """How much of the work on a batch of n t tokens teaches, beside that of one GPU's: (1 + t / B) / (1 + n t / B).

    McCandlish et al. 2018, Eq. 2.11: with a batch of b tokens, a goal takes 1 + b / B times the tokens that the
    smallest batches need, where B is the critical batch.
    """
    return (1 + job.tokens / job.critical) / (1 + gpus * job.tokens / job.critical)


def sharded(size: float, gpus: int, cluster: Cluster) -> float:
    """Seconds of FSDP's talk: weights are gathered forwards and backwards, gradients scattered: 3 (n - 1) / n of all
    bytes, where a sum over all has 2."""
    return 1.5 * all_reduce(size, gpus, cluster)


def tensor_parallel(job: Job, cluster: Cluster, width: int = 2) -> float:
    """Seconds in which a host's GPUs, which share each matrix, sum activations of `width` bytes: as often backwards."""
    size = width * job.tokens * job.d_model
    return 2 * job.reductions * ring(size, cluster.in_host, cluster.inside)


def rare(job: Job, cluster: Cluster, every: int, wire: float, sites: int = 8) -> float:
    """The share of computing where sites far apart train by themselves and average weights each `every` steps (Stich
    2019; Douillard et al. 2023), over wires of so many bytes a second."""
    return efficiency(every * compute(job, cluster), ring(4 * job.parameters, sites, wire, latency=0.05))


def rows(job: Job, cluster: Cluster) -> list[list[str]]:
    found = []
    computing = compute(job, cluster)
    for gpus in GPUS:
        for name, width in FORMATS.items():
            talking = all_reduce(width * job.parameters, gpus, cluster)
            plain, beside = efficiency(computing, talking), efficiency(computing, talking, hidden=2 / 3 * computing)
            found.append([
                f"{gpus:,}", name, f"{gpus * job.tokens:,}", f"{1e3 * computing:.1f}", f"{1e3 * talking:.1f}",
                f"{100 * plain:.0f} %", f"{100 * beside:.0f} %", f"{gpus * plain * learning(gpus, job):.0f}",
            ])  # fmt: skip
    return found


def tell(job: Job, cluster: Cluster) -> None:
    fits = cluster.memory / 2 / STATE
    print(f"\n{job.name}: {job.parameters / 1e6:.1f} M parameters, {job.tokens:,} tokens on each GPU in a step\n")
    head = ["GPUs", "gradients", "batch", "computing ms", "talking ms", "efficiency", "if hidden", "times one GPU"]
    print(table(head, rows(job, cluster)))
    many = 64
    whole, parts = (1e3 * how(4 * job.parameters, many, cluster) for how in (all_reduce, sharded))
    state = STATE * job.parameters / 1e9
    print(f"\nFSDP on {many} GPUs: {parts:.1f} ms of talk in place of {whole:.1f}, and {state / many:.3f} GB of state "
          f"in place of {state:.1f}; needed above {fits / 1e9:.1f} B parameters")  # fmt: skip
    print(f"tensor parallelism in a host: {1e3 * tensor_parallel(job, cluster):.1f} ms of talk, "
          f"{1e3 * compute(job, cluster) / cluster.in_host:.1f} ms of computing")  # fmt: skip
    print("8 sites that average over 1 Gbit/s each H steps: " + ", ".join(
        f"H = {every}: {100 * rare(job, cluster, every, 125e6):.0f} %" for every in (1, 10, 100, 500)))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", nargs="+", default=["base", "big"], choices=[*PRESETS])
    parser.add_argument("--tokens", type=int, default=4096, help="on each GPU, in a step")
    parser.add_argument("--network", type=float, default=25, help="gigabytes a second in and out of a host")
    asked = parser.parse_args()
    cluster = replace(Cluster(), network=asked.network * 1e9)
    critical = f"{Job.critical:,.0f} tokens"
    print(f"assumed: {cluster}; a critical batch of {critical}; two thirds of computing, backwards, can hide talk")
    for preset in asked.preset:
        tell(Job.of(preset, asked.tokens), cluster)


if __name__ == "__main__":
    main()
