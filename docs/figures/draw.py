#!/usr/bin/env python3
"""Draws the pictures of docs/scheduling-results.md as SVG. `make figures` runs it.

The simulator makes the runs and writes CSV, which stays in build/figures:

    draw.py                   runs bin/gpuwhisk with 20 seeds and draws every picture
    draw.py load pool         draws these pictures
    draw.py --list-runs       prints the runs that the pictures need

A run is written as `gpuwhisk sim runs` reads it: a workload, a policy, and flags of
`gpuwhisk sim run` without dashes.
"""

import argparse
import csv
import json
import pathlib
import re
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "figures"

MQFQ, PLUS = "mqfq-sticky", "sticky-plus"
MEDIUM, ZIPF = f"azure {MQFQ}", f"zipf {MQFQ}"
POLICIES = [MQFQ, PLUS, "mqfq", "sfq", "fcfs", "batch", "paella", "sjf", "eevdf"]

# Each policy has one colour in all pictures. Most are those of Okabe and Ito, which
# colour-blind readers can tell apart.
COLOURS = {
    MQFQ: "#0072b2", "fcfs": "#d55e00", PLUS: "#009e73", "batch": "#cc79a7", "eevdf": "#e69f00",
    "mqfq": "#56b4e9", "sjf": "#5a5a5a", "paella": "#a07828", "sfq": "#963cbe", "naive": "#781414",
}
OTHERS = ["#3c3c3c", "#aa3377", "#228822", "#bba014"]  # for functions, devices, tokens
GREY = "#6e6e6e"  # for bounds


# Results of runs.

class Results:
    """The rows that the simulator wrote, by run, seed and function."""

    def __init__(self, file):
        self.rows = {}
        with open(file, newline="") as text:
            for row in csv.DictReader(text):
                self.rows.setdefault(row["run"], {}).setdefault(int(row["seed"]), {})[row["function"]] = row

    def values(self, run, figure):
        """Returns the figure of each seed; figure is a column or a function."""
        f = figure if callable(figure) else lambda functions: float(functions[""][figure])
        return [f(functions) for _, functions in sorted(self.rows[run].items())]

    def functions(self, run):
        """Returns the functions' rows of the first seed, in order."""
        return [row for name, row in self.rows[run][1].items() if name]


def spread(values):
    """Returns the median, and the 10% and 90% quantiles."""
    ordered = sorted(values)

    def quantile(q):
        at = q * (len(ordered) - 1)
        low = int(at)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (at - low) * (ordered[high] - ordered[low])

    return statistics.median(ordered), quantile(0.1), quantile(0.9)


def series(gpuwhisk, run):
    """Returns the first seed's result with its values per window of 30 s."""
    workload, policy, *flags = run.split()
    out = subprocess.run([gpuwhisk, "sim", "run", "--json", "--series", f"--workload={workload}", f"--policy={policy}",
                          *("--" + flag for flag in flags)], check=True, capture_output=True)
    return json.loads(out.stdout)


ATTACKS = ["hog", "liar", "onoff", "tiny"]  # workloads with an adversary of that name


def honest(functions):
    """Returns the mean latency of all activations except the adversary's."""
    total = count = 0
    for name, row in functions.items():
        if name and name.split("-")[0] not in ATTACKS:
            total += float(row["mean_s"]) * int(row["activations"])
            count += int(row["activations"])
    return total / count if count else 0


def rare_call(functions):
    """Returns the mean latency of the last function."""
    return float(list(functions.values())[-1]["mean_s"])


# Pictures.

class Picture:
    """A picture: its texts, and its curves as (style, label, x values, runs, figure, base).

    A point of a curve is the figure of its run, or the ratio to the mean latency of the base
    run, seed by seed.
    """

    def __init__(self, title, x, y, **look):
        self.title, self.x, self.y, self.look = title, x, y, look
        self.curves = []

    def curve(self, style, label, xs, runs, figure="mean_s", base=None):
        self.curves.append((style, label, list(xs), list(runs), figure, list(base or [])))
        return self

    def over(self, style, label, xs, run, figure="mean_s", base=None):
        """Adds a curve of a run in which X is replaced by each value."""
        at = lambda text: [text.replace("X", f"{x:g}") for x in xs]
        return self.curve(style, label, xs, at(run), figure, at(base) if base else None)

    def runs(self):
        return [run for _, _, _, runs, _, base in self.curves for run in runs + base]

    def draw(self, axes, results, gpuwhisk):
        beside = [c for c in self.curves if c[0] == "dots"]
        drawn = {}
        for i, (style, label, xs, runs, figure, base) in enumerate(self.curves):
            colour = colour_of(label, i)
            points = []
            for k, run in enumerate(runs):
                values = results.values(run, figure)
                if base:
                    values = [v / b for v, b in zip(values, results.values(base[k], "mean_s"))]
                points.append(spread(values))
            middle = [p[0] for p in points]
            bars = [[max(0, p[0] - p[1]) for p in points], [max(0, p[2] - p[0]) for p in points]]
            if style == "lines":
                dashes = ["-", "--", ":"][drawn.get(colour, 0)]
                drawn[colour] = drawn.get(colour, 0) + 1
                axes.errorbar(xs, middle, bars, color=colour, ls=dashes, marker="o", ms=4, capsize=3, label=label)
            elif style == "dots":  # side by side, because they share their values of x
                shift = 0.09 * (len([c for c in beside if c[1] in list(drawn)]) - (len(beside) - 1) / 2)
                drawn[label] = 1
                axes.errorbar([x + shift for x in xs], middle, bars, color=colour, ls="none", marker="o", ms=4, capsize=3, label=label)
            elif style == "bars":
                axes.bar(xs, middle, 0.6, color=colour)
            elif style == "limit":
                axes.plot(xs, middle, color=GREY, ls="--", label=label)
            elif style == "limits":
                axes.hlines(middle, [x - 0.42 for x in xs], [x + 0.42 for x in xs], color=GREY, ls="--", label=label)


class OverTime(Picture):
    """A picture of values per window of 30 s, of the first seed."""

    def __init__(self, title, y, lines, **look):
        super().__init__(title, "minute", y, **look)
        self.lines = lines  # (label, run, value of a window)

    def draw(self, axes, results, gpuwhisk):
        made = {run: series(gpuwhisk, run) for run in dict.fromkeys(run for _, run, _ in self.lines)}
        for i, (label, run, value) in enumerate(self.lines):
            windows = range(min(len(made[run]["series"]), 60))
            bound = "bound" in label
            axes.plot([(w + 0.5) / 2 for w in windows], [value(made[run], w) for w in windows],
                      color=colour_of(label, i), ls="--" if bound else "-", label=label)


class Functions(Picture):
    """Each function's mean latency with its standard deviation, of the first seed."""

    def runs(self):
        return [f"azure {policy}" for policy in (MQFQ, "fcfs", "batch", PLUS)]

    def draw(self, axes, results, gpuwhisk):
        means = [float(row["mean_s"]) for row in results.functions(MEDIUM)]
        rank = sorted(range(len(means)), key=lambda i: means[i])
        for k, run in enumerate(self.runs()):
            rows = [results.functions(run)[i] for i in rank]
            middle = [float(row["mean_s"]) for row in rows]
            deviation = [float(row["std_s"]) for row in rows]
            axes.errorbar([i + 1 + 0.15 * (k - 1.5) for i in range(len(rows))], middle,
                          [[min(m, d) for m, d in zip(middle, deviation)], deviation],
                          color=COLOURS[run.split()[1]], ls="none", marker="o", ms=3.5, capsize=2, label=run.split()[1])


class Frontier(Picture):
    """Latency against the gap in service; T grows along a line."""

    windows = [f"overrun={t}s" for t in (0, 1, 2, 5, 10, 20, 50)]

    def lines(self):
        for policy in (MQFQ, PLUS):
            yield policy, [f"zipf {policy} pool=16 {t}" for t in self.windows]
        for policy in ("fcfs", "batch", "paella", "sjf", "eevdf"):
            yield policy, [f"zipf {policy} pool=16"]

    def runs(self):
        return [run for _, runs in self.lines() for run in runs]

    def draw(self, axes, results, gpuwhisk):
        medians = lambda runs, figure: [statistics.median(results.values(run, figure)) for run in runs]
        for policy, runs in self.lines():
            axes.plot(medians(runs, "gap_mean_s"), medians(runs, "mean_s"), color=COLOURS[policy], marker="o", ms=4, label=policy)
        bound = medians([f"{ZIPF} pool=16 {self.windows[0]}"], "lower_bound_s")[0]
        axes.axhline(bound, color=GREY, ls="--", label="lower bound")


class Cost(Picture):
    """The median cost of a decision, from the benchmark of package sched."""

    def draw(self, axes, results, gpuwhisk):
        out = subprocess.run(["go", "test", "-run=^$", "-bench=NextFlows", "-benchtime=2000x", "./sched"], cwd=ROOT,
                             check=True, capture_output=True, text=True)
        points = {}
        for policy, flows, ns in re.findall(r"BenchmarkNextFlows/([a-z-]+)/(\d+)\S*\s.*?([\d.]+) p50-ns", out.stdout):
            points.setdefault(policy, []).append((int(flows), float(ns) / 1000))
        for policy, line in points.items():
            axes.plot(*zip(*line), color=COLOURS[policy], marker="o", ms=4, label=policy)


def pictures():
    """Returns the paper's pictures, then ours, by the names of their files."""
    all = {}
    copies = ["low-1", "high-1", "low-2", "high-2"]
    for policy in (MQFQ, "fcfs"):
        all[f"fairness-{policy}"] = OverTime(
            f"Service of four copies of a function, two from minute 5 on: {policy}", "seconds of GPU per 30 s",
            [(name, f"copies {policy} duration=10m drain=0s", lambda r, w, i=i: r["series"][w][i]) for i, name in enumerate(copies)])
    gap = lambda r, w: max(r["series"][w]) - min(r["series"][w])
    all["gap"] = OverTime("Gap between the most and the least served of 24 functions", "seconds per 30 s", [
        (MQFQ, f"{ZIPF} load=0.9", gap), ("fcfs", "zipf fcfs load=0.9", gap),
        ("derived bound (MQFQ)", f"{ZIPF} load=0.9", lambda r, w: r["gapBound"])])

    loads = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 0.95]
    p = all["load"] = Picture("Latency against load, 24 functions, Zipf", "load, share of capacity", "mean latency, s", yscale="log")
    for policy in (MQFQ, "fcfs", PLUS):
        p.over("lines", policy, loads, f"zipf {policy} load=X")
    p.over("limit", "lower bound", loads, f"{ZIPF} load=X", "lower_bound_s")

    ds = [1, 2, 3]
    p = all["policies"] = Picture("Policies on the medium trace", "D, runs in flight", "mean latency, s", yscale="log", xticks=ds)
    for policy in (MQFQ, PLUS, "fcfs", "batch", "sjf", "eevdf", "paella", "mqfq", "naive"):
        p.over("dots", policy, ds, f"azure {policy} tokens=X")
    p.over("limits", "lower bound", ds, f"{MEDIUM} tokens=X", "lower_bound_s")

    all["functions"] = Functions("Latency of each function, medium trace", f"function, in order of its mean under {MQFQ}",
                                 "mean and standard deviation, s", xticks=range(1, 20, 2), ylim=(0, None))
    all["utilization"] = OverTime(f"Device utilization, medium trace, {MQFQ}", "share of time with a run",
                                  [(f"D={d}", f"{MEDIUM} tokens={d}", lambda r, w: r["busy"][w]) for d in ds], ylim=(0, 1.15))

    samples = list(range(9))
    p = all["traces"] = Picture(f"The nine samples, mean latency over that of {MQFQ}", "sample", "ratio", yscale="log", xticks=samples)
    for policy in ("fcfs", PLUS, "eevdf"):
        p.over("dots", policy, samples, f"azure {policy} trace-id=X", base=f"{MEDIUM} trace-id=X")
    p.over("limits", "lower bound", samples, f"{MEDIUM} trace-id=X", "lower_bound_s", base=f"{MEDIUM} trace-id=X")

    p = all["gpus"] = Picture(f"One and two GPUs, high-load trace, {MQFQ}", "D, runs in flight per device", "mean latency, s", yscale="log", xticks=ds)
    for name, flag in (("one GPU", ""), ("two GPUs", " devices=2")):
        p.over("dots", name, ds, f"{MEDIUM} trace-id=6 tokens=X{flag}")
        p.over("limits", f"lower bound, {name}", ds, f"{MEDIUM} trace-id=6 tokens=X{flag}", "lower_bound_s")

    ts = [0, 1, 2, 5, 10, 20, 35, 50]
    p = all["overrun"] = Picture("Overrun T, medium trace", "T, s", "mean latency, s", yscale="log")
    p.over("lines", MQFQ, ts, f"{MEDIUM} overrun=Xs")
    p.over("lines", f"{MQFQ}, 1.0 charged", ts, f"{MEDIUM} overrun=Xs fixed-charge=1s")
    p.over("lines", PLUS, ts, f"azure {PLUS} overrun=Xs")
    p.over("limit", "lower bound", ts, f"{MEDIUM} overrun=Xs", "lower_bound_s")

    ttls = [0, 0.1, 0.5, 1, 2, 3, 4]
    swapped = f"{MEDIUM} retention=flow-lru headroom=15GB"
    own, fixed = f"{swapped} ttl-alpha=X ttl-min=0s", f"{swapped} ttl-min=Xs ttl-max=Xs"
    p = all["ttl"] = Picture("Keep-alive of idle flows, medium trace, swapped out when inactive", "alpha, or the fixed TTL in s", "mean latency, s", yscale="log")
    p.over("lines", "alpha x own inter-arrival time", ttls, own)
    p.over("lines", "alpha x a global one", ttls, own + " ttl-global")
    p.over("lines", "one fixed TTL", ttls, fixed)
    p.over("limit", "lower bound", ttls, own, "lower_bound_s")

    sizes = [4, 6, 8, 12, 16, 24, 32]
    p = all["pool"] = Picture("Cold starts against the size of the pool, medium trace", "containers", "cold starts, %", xticks=sizes, ylim=(0, None))
    for policy, d in ((MQFQ, 1), (MQFQ, 2), (MQFQ, 3), ("fcfs", 1), ("fcfs", 2), (PLUS, 2)):
        p.over("lines", f"{policy}, D={d}", sizes, f"azure {policy} tokens={d} pool=X", lambda f: 100 * float(f[""]["cold_share"]))

    all["frontier"] = Frontier("Fairness and latency, Zipf, 16 containers; T from 0 to 50 s along a line",
                               "mean gap between backlogged functions, s per 30 s", "mean latency, s", yscale="log")

    parts = [(MQFQ, MQFQ, ""), ("+protect", MQFQ, " retention=protect-lru"), ("+demand", MQFQ, " retention=demand"),
             ("+wait", MQFQ, " wait"), ("+correct", MQFQ, " correct"), ("+shortest", MQFQ, " shortest"),
             (PLUS, PLUS, ""), ("-demand", PLUS, " retention=lru"), ("-wait", PLUS, " wait=false"),
             ("-correct", PLUS, " correct=false"), ("-shortest", PLUS, " shortest=false")]
    base = f"{ZIPF} pool=16"
    p = all["ablation"] = Picture("Parts of sticky-plus, Zipf, load 0.7, 16 containers", f"part added to {MQFQ}, or taken from {PLUS}",
                                  f"mean latency over {MQFQ}'s", labels=[part for part, _, _ in parts])
    for i, (_, policy, flag) in enumerate(parts):
        p.curve("bars", policy, [i], [f"zipf {policy} pool=16{flag}"], base=[base])
    p.curve("limit", "lower bound", [-0.5, len(parts) - 0.5], [base, base], "lower_bound_s", [base, base])

    p = all["rare"] = Picture("A call a minute behind a hundred busy functions, cold starts of all included", "", "its mean latency, s", labels=POLICIES)
    for i, policy in enumerate(POLICIES):
        p.curve("bars", policy, [i], [f"rare {policy} gpu-memory=80GB pool=128 load=1.1 duration=10m"], rare_call)

    p = all["adversaries"] = Picture("The honest functions beside an adversary, load 0.5 without it", "adversary", "mean latency, s", yscale="log", labels=ATTACKS)
    for policy in ("fcfs", MQFQ, PLUS, "sjf"):
        p.curve("dots", policy, range(len(ATTACKS)), [f"{a} {policy} load=0.5" for a in ATTACKS], honest)

    all["cost"] = Cost("Cost of enqueue, next and done of one activation, where this was drawn", "backlogged flows", "microseconds, median", xscale="log", yscale="log")
    return all


def colour_of(label, i):
    """Returns the colour of a curve, whose label begins with its policy if it has one."""
    policy = label.split(",")[0]
    if policy in COLOURS:
        return COLOURS[policy]
    return GREY if "bound" in label else OTHERS[i % len(OTHERS)]


def render(name, picture, results, gpuwhisk):
    """Draws a picture into its file."""
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot, ticker
    pyplot.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif", "font.size": 10, "axes.titlesize": 11,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
        "grid.color": "#dcdcdc", "lines.linewidth": 1.4, "legend.frameon": False,
    })
    figure, axes = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
    picture.draw(axes, results, gpuwhisk)
    look = dict(picture.look)
    labels = look.pop("labels", None)
    axes.set(title=picture.title, xlabel=picture.x, ylabel=picture.y, **look)
    if labels:
        crowded = len(labels) > 5
        axes.set_xticks(range(len(labels)), labels, rotation=35 if crowded else 0, ha="right" if crowded else "center")
        axes.set_xlim(-0.5, len(labels) - 0.5)
        axes.grid(axis="x", visible=False)
    if look.get("yscale") == "log":
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
        axes.yaxis.set_minor_locator(ticker.NullLocator())
    lines = dict(zip(*reversed(axes.get_legend_handles_labels())))
    if lines:
        names = [c[1] for c in picture.curves if c[1] in lines] or list(lines)
        axes.legend([lines[name] for name in names], names, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(HERE / f"{name}.svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="pictures to draw; all by default")
    parser.add_argument("--gpuwhisk", default=str(ROOT / "bin" / "gpuwhisk"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--list-runs", action="store_true", help="print the runs and draw nothing")
    args = parser.parse_args()
    wanted = {name: p for name, p in pictures().items() if not args.names or name in args.names}
    if unknown := set(args.names) - set(wanted):
        parser.error(f"no such picture: {', '.join(sorted(unknown))}")
    runs = "\n".join(dict.fromkeys(run for p in wanted.values() for run in p.runs()))
    if args.list_runs:
        print(runs)
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "runs").write_text(runs)
    subprocess.run([args.gpuwhisk, "sim", "runs", BUILD / "runs", f"--csv={BUILD / 'results.csv'}", f"--seeds={args.seeds}"], check=True)
    results = Results(BUILD / "results.csv")
    for name, p in wanted.items():
        render(name, p, results, args.gpuwhisk)
        print(HERE.relative_to(ROOT) / f"{name}.svg")


if __name__ == "__main__":
    main()
