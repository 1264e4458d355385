"""Rounds of peers and ours, in alternation."""

import random

from peer.install import prepare_venv
from peer.say import say
from peer.table import table
from peer.timed import LOCAL, PAGES, RANKED, Peer, local_command, run_ours, sample_local, sample_ranked


def measure(title, options, own, flows, case, world, gone):
    """own: functions that each return the seconds of one or more of our rows. Returns the group's record."""
    peers, rows, checks = [], {}, {}
    try:
        for flow in flows:
            for pages in PAGES:
                name = (LOCAL | RANKED)[flow] + pages
                if flow in gone:
                    checks[name] = {"unavailable": gone[flow]}
                    continue
                say(f"{title}: {name} starts")
                peer = Peer(flow, pages, options, case, world)
                peers.append(peer)
                checks[name] = {"unavailable": peer.unavailable} if peer.unavailable else peer.check()
        timed = [peer for peer in peers if "ok" in checks[peer.name]]
        for number in range(options.rounds):
            say(f"{title}: round {number + 1} of {options.rounds}")
            turns = own + timed
            random.Random(number).shuffle(turns)
            for turn in turns:
                found = {turn.name: turn.sample(options.steps)} if isinstance(turn, Peer) else turn()
                for name, seconds in found.items():
                    rows.setdefault(name, []).append(seconds)
    finally:
        for peer in peers:
            peer.stop()
    order = sorted(name for name in rows if name.startswith("ours")) + [name for name in checks if name in rows]
    return {"title": title, "rows": {name: rows[name] for name in order}, "checks": checks}


def run_groups(options, folder):
    gone = prepare_venv(options.venv, options.peers)
    local = [flow for flow in LOCAL if flow in options.peers]
    ranked = [flow for flow in RANKED if flow in options.peers]
    groups = []

    def run(title, own, flows, tensors, world):
        case = folder / "case.safetensors"
        say(f"{title}: ours makes the numbers that all start from")
        run_ours([*local_command(options, tensors, 1, world), "--save", case], {}, folder)
        groups.append(measure(title, options, own, flows, case, world, gone))
        print(table(groups[-1]), flush=True)

    for tensors in options.tensors:
        shape = f"{options.numel:,} parameters, {tensors:,} tensor{'' if tensors == 1 else 's'}"
        if local:
            run(f"{shape}, {options.threads} thread{'' if options.threads == 1 else 's'}",
                [lambda tensors=tensors, pages=pages: sample_local(options, tensors, pages, folder) for pages in PAGES],
                local, tensors, 1)
        for ranks in options.ranks if ranked else []:
            run(f"{shape}{'' if tensors == 1 else ' (ours: 1)'}, {ranks} processes of one thread",
                [lambda ranks=ranks: sample_ranked(options, ranks, folder)], ranked, tensors, ranks)
    return groups
