// Calls to a sparseagg server over HTTP, in Connect's protocol with JSON (docs/http.md). Every call
// made here may be repeated, so a call goes on through lost connections and restarts of the server
// until it has an answer.

const CALL_MS_MAX = 60_000;
const RETRY_MS_MIN = 250;
const RETRY_MS_MAX = 8_000;
// Codes of errors that go away by waiting.
const PASSING = new Set(["unavailable", "resource_exhausted", "deadline_exceeded"]);

// A server's refusal. `reason` is stable (docs/api.md lists them); the message is for people.
export class CallError extends Error {
  constructor(method, answer, retryAfter) {
    super(`${method}: ${answer.message ?? answer.code}`);
    this.code = answer.code;
    this.reason = (answer.details ?? []).map(detail => detail.debug?.reason).find(Boolean) ?? "";
    this.retryAfterMs = retryAfter === null ? null : 1000 * Number(retryAfter);
  }

  get passes() {
    return PASSING.has(this.code) &&
        (this.code !== "resource_exhausted" || this.retryAfterMs !== null);
  }
}

export class Server {
  #url;
  #token;
  #onTrouble;
  #isTroubled = false;

  // url: of the server's HTTP edge, such as "http://127.0.0.1:50063".
  // token: the bearer token of every call; "" where the server demands none.
  // onTrouble(text): called with a sentence when a call has to wait for the server, and with ""
  // once it has answered.
  constructor(url, {token = "", onTrouble = () => {}} = {}) {
    this.#url = url.replace(/\/+$/, "");
    this.#token = token;
    this.#onTrouble = onTrouble;
  }

  // Returns the answer of a call, such as call("TaskService", "AcquireTasks", {...}). Throws
  // CallError, and the reason of `signal` when that is aborted.
  async call(service, method, message, signal) {
    for (let pause = RETRY_MS_MIN;; pause = Math.min(2 * pause, RETRY_MS_MAX)) {
      try {
        const answer = await this.#once(service, method, message, signal);
        if (this.#isTroubled) this.#onTrouble("");
        this.#isTroubled = false;
        return answer;
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof CallError && !error.passes) throw error;
        const wait = error.retryAfterMs ?? pause * (0.5 + Math.random() / 2);
        this.#isTroubled = true;
        this.#onTrouble(`${this.#inWords(error)} Trying again in ${(wait / 1000).toFixed(1)} s.`);
        await sleep(wait, signal);
      }
    }
  }

  // Ends a lease without waiting for an answer: the call goes on when the page is closed.
  handBack(lease) {
    const message = {lease, reason: "the tab was closed or stopped", handedBack: true};
    const options = {...this.#request(message), keepalive: true};
    return fetch(this.#address("TaskService", "FailTask"), options);
  }

  #address(service, method) {
    return `${this.#url}/sparseagg.v1.${service}/${method}`;
  }

  #request(message) {
    const headers = {"Content-Type": "application/json"};
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    return {method: "POST", headers, body: JSON.stringify(message)};
  }

  async #once(service, method, message, signal) {
    const limits = [AbortSignal.timeout(CALL_MS_MAX), ...(signal ? [signal] : [])];
    const options = {...this.#request(message), signal: AbortSignal.any(limits)};
    const response = await fetch(this.#address(service, method), options);
    const text = await response.text();
    if (response.ok) return JSON.parse(text);
    let answer;
    try {
      answer = JSON.parse(text);
    } catch {  // something between here and the server has answered
      const code = response.status >= 500 ? "unavailable" : "unknown";
      answer = {code, message: `HTTP status ${response.status}`};
    }
    throw new CallError(method, answer, response.headers.get("Retry-After"));
  }

  // A page learns nothing about a connection that failed, nor about an answer that it may not read.
  #inWords(error) {
    const server = `The server at ${this.#url}`;
    if (error instanceof CallError) return `${server} refuses for now: ${error.message}.`;
    if (error.name === "TimeoutError") return `${server} has not answered in time.`;
    const question = `Is it running, and does its --http-origins name ${location.origin}?`;
    return `${server} cannot be reached. ${question}`;
  }
}

// Waits for a time; throws the reason of `signal` as soon as that is aborted.
export function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    }, {once: true});
  });
}

// Returns the milliseconds of a duration as JSON has it ("1.5s"), or 0 where it is unset.
export function milliseconds(duration) {
  return duration === undefined ? 0 : 1000 * Number.parseFloat(duration);
}
