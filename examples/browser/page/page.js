// The page: starts the worker, shows what it tells, and hands its task back when the tab is closed.
// The address says which server and pool: ?server=http://127.0.0.1:50063&pool=words
//
// Where the server demands a token, it comes in the fragment, which browsers send to nobody:
// ?server=...&pool=...&principal=tabs#token=SECRET, or is entered on the page. It is kept in this
// variable only, and the fragment is removed. `principal` is the token's: the worker's name begins
// with it.

import {drawPlot} from "./plot.js";
import {Server} from "./server.js";

const EVENTS_SHOWN = 12;
const OWN_POINTS_SHOWN = 400;
const STEPS = {
  reading: "Reading words and rows",
  training: "Training",
  sending: "Submitting the update",
};

const element = id => document.getElementById(id);
const show = (id, text) => element(id).textContent = text;

const options = new URLSearchParams(location.search);
const url = options.get("server");
const pool = options.get("pool") ?? "words";
const principal = options.get("principal");
const ownName = `tab-${crypto.getRandomValues(new Uint32Array(1))[0].toString(16)}`;
const name = principal ? `${principal}/${ownName}` : ownName;

let token = "";
let worker = null;
let lease = null;
let leaseEnds = 0;
let renewals = 0;
const counts = {
  tasks: 0,
  examples: 0,
  rows: 0,
  bytes: 0,
};
const ownLosses = [];

function start() {
  worker = new Worker("worker.js", {type: "module"});
  worker.onmessage = ({data}) => heard[data.kind](data);
  worker.onerror = event =>
      stopWith(`The worker has stopped: ${event.message ?? "its files cannot be loaded"}`);
  worker.postMessage({server: url, token, pool, name});
  element("credential").hidden = true;
  show("switch", "Stop");
  show("state", "Asking for a task");
}

// Ends the worker. Its task goes back to the pool at once, instead of when its lease ends.
function stop() {
  worker?.terminate();
  worker = null;
  // The lease ends by itself, too.
  if (lease) new Server(url, {token}).handBack(lease).catch(() => {});
  lease = null;
  show("switch", "Start");
  show("state", "Stopped");
  show("task", "No task.");
  showTrouble("");
}

function stopWith(text) {
  stop();
  showTrouble(text);
}

// What the worker tells, by kind.
const heard = {
  waiting({seconds}) {
    show("state", "Waiting for a task");
    const time = `${seconds.toFixed(1)} s`;
    show("task", `There is no task now. The server asks this worker to come back in ${time}.`);
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
    const last = ownLosses.length - 1;
    const points = ownLosses.map((y, i) => [i, y]).slice(-OWN_POINTS_SHOWN);
    drawPlot(element("own"), points, points[0][0], last);
  },
  done({text, examples, rows, bytes}) {
    const more = {tasks: 1, examples, rows, bytes};
    for (const [id, amount] of Object.entries(more)) {
      counts[id] += amount;
      show(id, counts[id].toLocaleString("en"));
    }
    note(text);
  },
  gone({text}) {
    note(text);
  },
  failed({text, fatal, code}) {
    note(text, true);
    show("state", "Waiting after a failure");
    if (fatal) stopWith(text);
    element("credential").hidden = code !== "unauthenticated";
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
  const state =
      lease && `token ${lease.token}, renewed ${renewals} times, ${seconds.toFixed(0)} s left`;
  show("lease", state ?? "none");
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
  while (element("events").children.length > EVENTS_SHOWN) {
    element("events").lastElementChild.remove();
  }
}

// Takes the token out of the address, so that neither the history nor a picture has it.
function takeToken() {
  token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
}

// Takes the token that was entered, and begins again with it.
function enterToken(event) {
  event.preventDefault();
  token = element("token").value.trim();
  element("token").value = "";
  showTrouble("");
  start();
}

// Returns why this page cannot work, or "".
function whyNot() {
  if (!url) return "The address names no server: add ?server=http://HOST:PORT&pool=POOL";
  if (!isSecureContext) return "Browsers have SHA-256 for pages of https or of localhost only.";
  return "";
}

function begin() {
  show("server", url ?? "(none)");
  show("pool", pool);
  show("name", name);
  element("switch").addEventListener("click", () => worker ? stop() : start());
  element("credential").addEventListener("submit", enterToken);
  const problem = whyNot();
  if (problem) return stopWith(problem);
  setInterval(showLease, 1000);
  addEventListener("pagehide", stop);
  addEventListener("pageshow", event => event.persisted && start());
  start();
}

takeToken();
begin();
