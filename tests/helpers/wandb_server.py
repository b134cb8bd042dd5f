"""A W&B server in memory: as much of its protocol as runs, sweeps, agents and `wandb sync` use.

The answers follow the requests of wandb 0.31 (GraphQL by the name of the operation, streams of files, uploads). What is
not here: accounts, artifacts, random and Bayesian searches (a sweep is a grid), and the web pages.
"""

import gzip
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from typing import Any

import yaml

ENTITY = "team"


@dataclass
class ServerRun:
    """A run as the server knows it."""

    name: str
    project: str = ""
    sweep: str | None = None
    state: str = "running"
    tags: list[str] = field(default_factory=list)
    group: str | None = None
    display_name: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    streams: dict[str, list[str]] = field(default_factory=dict)
    """Lines of each stream by its name, such as ``wandb-history.jsonl``."""
    files: dict[str, bytes] = field(default_factory=dict)
    exit_code: int | None = None
    preempting: bool = False

    @property
    def history(self) -> list[dict[str, Any]]:
        """Logged rows."""
        return [json.loads(line) for line in self.streams.get("wandb-history.jsonl", [])]

    @property
    def summary(self) -> dict[str, Any]:
        """The last summary that was sent."""
        return json.loads((self.streams.get("wandb-summary.json") or ["{}"])[-1])


@dataclass
class Sweep:
    """A grid of runs."""

    name: str
    config: dict[str, Any]
    project: str
    pending: list[dict[str, Any]]
    """Commands that no agent has fetched."""
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The arguments of each run that an agent has fetched."""


def grid(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments of every combination of a sweep's values, in the form of an agent's command."""
    names = list(config["parameters"])
    values = [spec.get("values", [spec.get("value")]) for spec in config["parameters"].values()]
    return [{name: {"value": value} for name, value in zip(names, row, strict=True)} for row in product(*values)]


class WandbServer:
    """The state of the server, and its answers."""

    def __init__(self) -> None:
        self.runs: dict[str, ServerRun] = {}
        self.sweeps: dict[str, Sweep] = {}
        self.agents: dict[str, str] = {}
        """The sweep of each agent."""
        self.unknown: list[str] = []
        """Requests without an answer here."""
        self.url = ""
        self.lock = threading.Lock()

    # ------------------------------------------------------------------------------------ GraphQL

    def graphql(self, query: dict[str, Any]) -> dict[str, Any]:
        name = re.search(r"(?:query|mutation)\s+(\w+)", query["query"])[1]
        variables = query.get("variables") or {}
        answer = getattr(self, f"_{name}", None)
        if answer is None:
            self.unknown.append(f"{name} {variables} {query.get('query')}")
            return {}
        with self.lock:
            return answer(variables)

    def _Viewer(self, variables: dict[str, Any]) -> dict[str, Any]:
        viewer = {"id": "1", "entity": ENTITY, "username": "me", "email": "me@example.org", "flags": "{}"}
        return {"viewer": viewer | {"teams": {"edges": []}, "apiKeys": {"edges": []}, "admin": False}}

    def _UpsertBucket(self, variables: dict[str, Any]) -> dict[str, Any]:
        name = variables["name"] or variables["id"]
        inserted = name not in self.runs
        run = self.runs.setdefault(name, ServerRun(name, variables["project"] or ""))
        run.config |= {key: entry.get("value") for key, entry in json.loads(variables["config"] or "{}").items()}
        run.tags = variables.get("tags") or run.tags
        run.group = variables.get("groupName") or run.group
        run.display_name = variables.get("displayName") or run.display_name
        run.sweep = variables.get("sweep") or run.sweep
        return {"upsertBucket": {"inserted": inserted, "bucket": self._bucket(run)}}

    def _UpsertSweep(self, variables: dict[str, Any]) -> dict[str, Any]:
        config = yaml.safe_load(variables["config"])
        name = f"sweep{len(self.sweeps)}"
        self.sweeps[name] = Sweep(name, config, variables["projectName"], grid(config))
        project = {"id": "p", "name": variables["projectName"], "entity": {"id": "e", "name": ENTITY}}
        return {"upsertSweep": {"sweep": {"name": name, "project": project}, "configValidationWarnings": []}}

    def _SweepWithRuns(self, variables: dict[str, Any]) -> dict[str, Any]:
        sweep = self.sweeps.get(variables["sweep"])
        if sweep is None:
            return {"project": {"sweep": None}}
        values = {"id": sweep.name, "name": sweep.name, "state": "RUNNING", "config": yaml.safe_dump(sweep.config)}
        return {"project": {"sweep": values | {"method": "grid", "runs": {"edges": []}}}}

    def _GetSweepState(self, variables: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"sweep": {"state": "RUNNING"}}}

    def _CreateAgent(self, variables: dict[str, Any]) -> dict[str, Any]:
        agent = f"agent{len(self.agents)}"
        self.agents[agent] = variables["sweep"]
        return {"createAgent": {"agent": {"id": agent}}}

    def _Heartbeat(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Give an agent that has nothing to do the next run of its sweep; runs that were preempted go first."""
        agent, running = variables["id"], json.loads(variables["runState"])
        sweep = self.sweeps[self.agents[agent]]
        return {"agentHeartbeat": {"agent": {"id": agent}, "commands": json.dumps(self._commands(sweep, running))}}

    def _commands(self, sweep: Sweep, running: dict[str, bool]) -> list[dict[str, Any]]:
        if running:
            return []
        for run in self.runs.values():
            if run.sweep == sweep.name and run.state == "preempted":
                run.state, run.preempting = "running", False
                return [self._command(sweep, "resume", run.name)]
        if not sweep.pending:
            return [{"type": "exit"}]
        name = f"{sweep.name}-run{len(sweep.runs)}"
        sweep.runs[name] = sweep.pending.pop(0)
        return [self._command(sweep, "run", name)]

    def _command(self, sweep: Sweep, kind: str, name: str) -> dict[str, Any]:
        program = sweep.config["program"]
        return {"id": name, "type": kind, "run_id": name, "program": program, "args": sweep.runs[name]}

    def _RunResumeStatus(self, variables: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.get(variables["name"])
        project = {"id": "p", "name": variables["project"], "entity": {"id": "e", "name": ENTITY}}
        if run is None:
            return {"model": project | {"bucket": None}}
        lines = {name: run.streams.get(f"wandb-{name}.jsonl", []) for name in ("history", "events")}
        counts = {f"{name}LineCount": len(rows) for name, rows in lines.items()}
        tails = {f"{name}Tail": json.dumps(rows[-1:]) for name, rows in lines.items()}
        bucket = self._bucket(run) | counts | tails | {"logLineCount": 0, "tags": run.tags}
        bucket |= {"summaryMetrics": json.dumps(run.summary), "wandbConfig": bucket["config"]}
        return {"model": project | {"bucket": bucket}}

    def _CreateRunFiles(self, variables: dict[str, Any]) -> dict[str, Any]:
        run = variables["run"]
        files = [{"name": name, "uploadUrl": f"{self.url}/upload/{run}/{name}"} for name in variables["files"]]
        return {"createRunFiles": {"runID": run, "uploadHeaders": [], "files": files}}

    def _bucket(self, run: ServerRun) -> dict[str, Any]:
        project = {"id": "p", "name": run.project, "entity": {"id": "e", "name": ENTITY}}
        config = json.dumps({key: {"value": value} for key, value in run.config.items()})
        return {
            "id": run.name,
            "name": run.name,
            "displayName": run.display_name or run.name,
            "description": None,
            "config": config,
            "sweepName": run.sweep,
            "project": project,
            "historyLineCount": len(run.history),
        }


@contextmanager
def wandb_server() -> Iterator[WandbServer]:
    """Run a server on a free port of this machine."""
    state = WandbServer()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            self.reply(self.result(body))

        def result(self, body: bytes) -> Any:
            if self.path.startswith("/graphql"):
                return {"data": state.graphql(json.loads(body))}
            if self.path.startswith("/upload/"):
                _, _, run, name = self.path.split("/", 3)
                state.runs[run].files[name] = body
                return {}
            if self.path.endswith("/file_stream"):
                stream(state.runs[self.path.split("/")[-2]], json.loads(body))
                return {"exitcode": None, "limits": {}}
            state.unknown.append(f"{self.command} {self.path}")
            return {}

        def reply(self, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = answer

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def stream(run: ServerRun, sent: dict[str, Any]) -> None:
    """Add the lines of a file-stream request to a run."""
    for name, chunk in sent.get("files", {}).items():
        lines = run.streams.setdefault(name, [])
        lines[chunk["offset"] :] = chunk["content"]
    run.preempting = run.preempting or bool(sent.get("preempting"))
    if sent.get("complete"):
        run.exit_code = sent.get("exitcode")
        run.state = "finished"
        if run.exit_code != 0:
            run.state = "preempted" if run.preempting else "failed"
