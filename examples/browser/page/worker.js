// The worker of the page, in a thread of its own: a busy or hidden page does not delay its
// heartbeats. It keeps nothing between two tasks. docs/tasks.md has the loop.
//
// It is told {server, token, pool, name} once, and tells the page, as `kind` says:
//   waiting   {seconds}             no task; it asks again after that time
//   task      {task, payload}       a task was acquired
//   lease     {lease, msLeft}       the lease began or was renewed; null: it has ended
//   progress  {step, share, loss}   of the task
//   done      {text, examples, rows, bytes}   the task's update is counted
//   gone      {text}                the task is no longer this worker's
//   failed    {text, fatal, code}   the task has failed; fatal: the worker, too
//   trouble   {text}                the server does not answer; "": it does again

import {CallError, milliseconds, Server, sleep} from "./server.js";
import {updateOf} from "./tasks.js";
import {fromBase64, submit} from "./tensors.js";

// What the server says when somebody else has done the task, or may do it.
const GONE = {
  TASK_FENCED: "the lease has ended, so the task is somebody else's now",
  TASK_NOT_FOUND: "the task is no longer there",
  CONTRIBUTOR_ALREADY_COUNTED: "the update of an earlier lease is counted already",
  ROUND_NOT_OPEN: "the round takes no more updates",
  ROUND_NOT_FOUND: "the round is no longer there",
};

self.onmessage = ({data: {server: url, token, pool, name}}) => {
  const server = new Server(url, {token, onTrouble: text => tell("trouble", {text})});
  const report = ({message, code}) =>
      tell("failed", {text: `The worker has stopped: ${message}`, fatal: true, code});
  work(server, pool, name).catch(report);
};

function tell(kind, message) {
  self.postMessage({kind, ...message});
}

async function work(server, pool, name) {
  let failures = 0;  // in a row
  for (;;) {
    // A retry repeats the id, so that a lost answer holds up no task.
    const request = {worker: name, pools: [pool], requestId: randomText()};
    const answer = await server.call("TaskService", "AcquireTasks", request);
    if (answer.tasks?.length > 0) {
      failures = await perform(server, answer.tasks[0]) ? 0 : failures + 1;
      // A worker on which everything fails must not use up the attempts of all tasks.
      if (failures > 0) await sleep(Math.min(500 * 2 ** failures, 60_000));
      continue;
    }
    const [min, max] = [milliseconds(answer.retry?.min), milliseconds(answer.retry?.max)];
    const wait = min + Math.random() * (max - min);
    tell("waiting", {seconds: wait / 1000});
    await sleep(wait);
  }
}

function randomText() {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), n => n.toString(16)).join("-");
}

// One lease of a task, renewed three times in its duration. Once it is lost, `signal` aborts what
// is done for it.
class Lease {
  #controller = new AbortController();
  #server;
  #timer;

  constructor(server, {task, token, duration, timeLeft}) {
    this.#server = server;
    this.id = {task, token};
    tell("lease", {lease: this.id, msLeft: milliseconds(timeLeft)});
    this.#timer = setInterval(() => this.#renew(), milliseconds(duration) / 3);
  }

  get signal() {
    return this.#controller.signal;
  }

  end() {
    clearInterval(this.#timer);
    this.#controller.abort();
    tell("lease", {lease: null});
  }

  async #renew() {
    try {
      const {leases: [renewed]} =
          await this.#server.call("TaskService", "RenewTasks", {leases: [this.id]}, this.signal);
      if (renewed.error)
        throw new CallError("RenewTasks", {details: [{debug: renewed.error}]}, null);
      const msLeft = milliseconds(renewed.lease.timeLeft);
      if (!this.signal.aborted) tell("lease", {lease: this.id, msLeft});
    } catch (error) {
      clearInterval(this.#timer);
      this.#controller.abort(error);
    }
  }
}

// Does a task; returns whether its update is counted, or need not be.
async function perform(server, task) {
  const lease = new Lease(server, task.lease);
  const {signal} = lease;
  const {round, contributor} = task;
  try {
    const payload = JSON.parse(new TextDecoder().decode(fromBase64(task.payload ?? "")));
    tell("task", {task, payload});
    const onStep = progress => tell("progress", progress);
    const {tensors, weight} = await updateOf(server, payload, contributor, onStep, signal);
    onStep({step: "sending", share: 0});
    const header = {round, contributor, updateId: `lease-${task.lease.token}`, weight};
    const onProgress = share => onStep({step: "sending", share});
    const receipt = await submit(server, header, tensors, {onProgress, signal});
    await server.call("TaskService", "CompleteTask", {lease: lease.id, receipt}, signal);
    const sum = ofTensor => tensors.reduce((total, tensor) => total + ofTensor(tensor), 0);
    tell("done", {
      text: `Counted as update ${receipt.sequence} of ${round}.`,
      examples: weight ?? 0,
      rows: sum(({indices}) => indices.length),
      bytes: sum(({indices, values}) => indices.byteLength + values.byteLength),
    });
    return true;
  } catch (error) {
    return await giveUp(server, lease, task, error);
  } finally {
    lease.end();
  }
}

async function giveUp(server, lease, task, error) {
  if (GONE[error.reason]) {
    tell("gone", {text: `${task.name} of ${task.contributor} is dropped: ${GONE[error.reason]}.`});
    return true;
  }
  tell("failed", {text: `${task.name} of ${task.contributor} failed: ${error.message}.`});
  const failure = {lease: lease.id, reason: error.message.slice(0, 200), retryable: true};
  // Where the call fails, too, the lease ends by itself.
  await server.call("TaskService", "FailTask", failure).catch(() => {});
  return false;
}
