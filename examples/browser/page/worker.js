// The worker of the page, in a thread of its own: a busy or hidden page does not delay its heartbeats. It keeps nothing
// between two tasks. docs/tasks.md has the loop.
//
// It is told {server, pool, name} once, and tells the page, as `kind` says:
//   waiting  {seconds}                     no task; it asks again after that time
//   task     {task, payload}               a task was acquired
//   lease    {lease, msLeft}               the lease was renewed; the page hands it back when it is closed
//   progress {step, share, loss}           of the task
//   done     {text, examples, rows, bytes} the task's update is counted
//   gone     {text}                        the task is no longer this worker's
//   failed   {text}                        the task was given back with an error
//   trouble  {text}                        the server does not answer; "": it does again

import {CallError, milliseconds, Server, sleep} from "./server.js";
import {updateOf} from "./tasks.js";
import {submit} from "./tensors.js";

// What the server says when somebody else has done the task, or may do it.
const GONE = {
  TASK_FENCED: "the lease has ended, so the task is somebody else's now",
  TASK_NOT_FOUND: "the task is no longer there",
  CONTRIBUTOR_ALREADY_COUNTED: "the update of an earlier lease is counted already",
  ROUND_NOT_OPEN: "the round takes no more updates",
  ROUND_NOT_FOUND: "the round is no longer there",
};

self.onmessage = ({data: {server: url, pool, name}}) => {
  const server = new Server(url, text => tell("trouble", {text}));
  work(server, pool, name).catch(error => tell("failed", {text: `The worker has stopped: ${error.message}`, fatal: true}));
};

function tell(kind, message) {
  self.postMessage({kind, ...message});
}

async function work(server, pool, name) {
  for (;;) {
    // A retry repeats the id, so that a lost answer holds up no task.
    const requestId = Array.from(crypto.getRandomValues(new Uint32Array(4)), n => n.toString(16)).join("-");
    const answer = await server.call("TaskService", "AcquireTasks", {worker: name, pools: [pool], requestId});
    if (answer.tasks?.length > 0) {
      await perform(server, answer.tasks[0]);
      continue;
    }
    const [min, max] = [milliseconds(answer.retry?.min), milliseconds(answer.retry?.max)];
    const wait = min + Math.random() * (max - min);
    tell("waiting", {seconds: wait / 1000});
    await sleep(wait);
  }
}

// One lease of a task, renewed three times in its duration. Once it is lost, `signal` aborts what is done for it.
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
      const {leases: [renewed]} = await this.#server.call("TaskService", "RenewTasks", {leases: [this.id]}, this.signal);
      if (renewed.error) throw new CallError("RenewTasks", {message: renewed.error.message, details: [{debug: renewed.error}]}, null);
      if (!this.signal.aborted) tell("lease", {lease: this.id, msLeft: milliseconds(renewed.lease.timeLeft)});
    } catch (error) {
      clearInterval(this.#timer);
      this.#controller.abort(error);
    }
  }
}

async function perform(server, task) {
  const payload = JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(task.payload ?? ""), c => c.charCodeAt(0))));
  tell("task", {task, payload});
  const lease = new Lease(server, task.lease);
  const {signal} = lease;
  try {
    const {tensors, weight} =
        await updateOf(server, payload, task.contributor, progress => tell("progress", progress), signal);
    const header = {round: task.round, contributor: task.contributor, updateId: `lease-${task.lease.token}`, weight};
    tell("progress", {step: "sending", share: 0});
    const receipt = await submit(
        server, header, tensors, {onProgress: share => tell("progress", {step: "sending", share}), signal});
    await server.call("TaskService", "CompleteTask", {lease: lease.id, receipt}, signal);
    tell("done", {
      text: `Counted as update ${receipt.sequence} of ${task.round}.`,
      examples: weight ?? 0,
      rows: tensors.reduce((sum, {indices}) => sum + indices.length, 0),
      bytes: tensors.reduce((sum, {indices, values}) => sum + indices.byteLength + values.byteLength, 0),
    });
  } catch (error) {
    await giveUp(server, lease, task, error);
  } finally {
    lease.end();
  }
}

async function giveUp(server, lease, task, error) {
  if (GONE[error.reason]) {
    tell("gone", {text: `${task.name} of ${task.contributor} is dropped: ${GONE[error.reason]}.`});
    return;
  }
  tell("failed", {text: `${task.name} of ${task.contributor} failed: ${error.message}.`});
  const failure = {lease: lease.id, reason: error.message.slice(0, 200), retryable: true};
  await server.call("TaskService", "FailTask", failure).catch(() => {});  // the lease ends by itself, too
}
