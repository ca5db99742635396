// The page: starts the worker, shows what it tells, and hands its task back when the tab is closed. The address says
// which server and pool: ?server=http://127.0.0.1:50063&pool=words

import {drawPlot} from "./plot.js";
import {Server} from "./server.js";

const EVENTS_SHOWN = 12;
const OWN_POINTS_SHOWN = 400;
const STEPS = {reading: "Reading words and rows", training: "Training", sending: "Submitting the update"};

const element = id => document.getElementById(id);
const show = (id, text) => element(id).textContent = text;

const options = new URLSearchParams(location.search);
const url = options.get("server");
const pool = options.get("pool") ?? "words";
const name = `tab-${crypto.getRandomValues(new Uint32Array(1))[0].toString(16)}`;

let worker = null;
let lease = null;
let leaseEnds = 0;
let renewals = 0;
const counts = {tasks: 0, examples: 0, rows: 0, bytes: 0};
const ownLosses = [];

function start() {
  worker = new Worker("worker.js", {type: "module"});
  worker.onmessage = ({data}) => heard[data.kind](data);
  worker.onerror = event => stopWith(`The worker has stopped: ${event.message ?? "its files cannot be loaded"}`);
  worker.postMessage({server: url, pool, name});
  show("switch", "Stop");
  show("state", "Asking for a task");
}

// Ends the worker. A task in its hands goes back to the pool at once, instead of when its lease ends.
function stop() {
  worker?.terminate();
  worker = null;
  if (lease) new Server(url).handBack(lease).catch(() => {});  // the lease ends by itself, too
  lease = null;
  show("switch", "Start");
  show("state", "Stopped");
  show("task", "No task.");
  showTrouble("");
}

function stopWith(text) {
  stop();
  note(text, true);
  showTrouble(text);
}

// What the worker tells, by kind.
const heard = {
  waiting({seconds}) {
    show("state", "Waiting for a task");
    show("task", `The pool has no task now. The server asks this worker to come back in ${seconds.toFixed(1)} s.`);
    element("progress").value = 0;
  },
  task({task, payload}) {
    const of = payload.round ? `round ${payload.round} of ${payload.rounds}` : "counting words";
    show("task", `${task.name}: the text of ${task.contributor}, ${of}.`);
    if (payload.losses) showHeldOut(payload.losses, payload.rounds);
  },
  lease({lease: renewed, msLeft}) {
    renewals = lease && renewed && lease.token === renewed.token ? renewals + 1 : 0;
    lease = renewed;
    leaseEnds = performance.now() + (msLeft ?? 0);
    showLease();
  },
  progress({step, share, loss}) {
    show("state", STEPS[step]);
    element("progress").value = share;
    if (loss === undefined || loss === null) return;
    ownLosses.push(loss);
    show("own-last", loss.toFixed(3));
    const from = Math.max(0, ownLosses.length - OWN_POINTS_SHOWN);
    drawPlot(element("own"), ownLosses.slice(from).map((y, i) => [from + i, y]), from, ownLosses.length - 1);
  },
  done({text, examples, rows, bytes}) {
    const more = {tasks: 1, examples, rows, bytes};
    for (const [id, amount] of Object.entries(more)) show(id, (counts[id] += amount).toLocaleString("en"));
    note(text);
  },
  gone({text}) {
    note(text);
  },
  failed({text, fatal}) {
    if (fatal) stopWith(text);
    else note(text, true);
  },
  trouble({text}) {
    showTrouble(text);
  },
};

// losses: before the first round, and after each round so far.
function showHeldOut(losses, rounds) {
  show("held-out-last", losses.at(-1).toFixed(4));
  drawPlot(element("held-out"), losses.map((loss, round) => [round, loss]), 0, rounds);
}

function showLease() {
  const seconds = Math.max(0, (leaseEnds - performance.now()) / 1000);
  show("lease", lease ? `token ${lease.token}, renewed ${renewals} times, ${seconds.toFixed(0)} s left` : "none");
}

function showTrouble(text) {
  show("trouble", text);
  element("trouble").hidden = text === "";
}

function note(text, isBad = false) {
  const item = document.createElement("li");
  const time = document.createElement("time");
  time.textContent = new Date().toLocaleTimeString([], {hour12: false});
  item.append(time, ` ${text}`);
  item.classList.toggle("bad", isBad);
  element("events").prepend(item);
  while (element("events").children.length > EVENTS_SHOWN) element("events").lastElementChild.remove();
}

function begin() {
  show("server", url ?? "(none)");
  show("pool", pool);
  show("name", name);
  element("switch").addEventListener("click", () => worker ? stop() : start());
  if (!url) return stopWith("The address of this page does not name a server: add ?server=http://HOST:PORT&pool=POOL");
  if (!isSecureContext) return stopWith("Browsers have SHA-256 for pages of https or of localhost only: open one of these.");
  setInterval(showLease, 1000);
  addEventListener("pagehide", stop);
  addEventListener("pageshow", event => event.persisted && start());
  start();
}

begin();
