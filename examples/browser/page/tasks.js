// What a task asks for. Its payload is JSON, with one of two kinds:
//
// "count": submit how often each word of the text occurs, at the hash of the word.
// "train": read the rows of the model that the text needs, train on the text, submit by how much
// the rows changed.
//
// The text is that of the task's contributor. Here the page's own server hands it out; it stands in
// for the device that has its text already.

import {planTraining, train} from "./model.js";
import {Random} from "./random.js";
import {denseTensor, readResult, selectionOf, sparseTensor} from "./tensors.js";
import {HASH_SPACE, hashCounts, Vocabulary, wordsOf} from "./words.js";

// The vocabulary of the last task: all tasks of a training have the same. It can be read again.
const known = {};

// Returns the update of a task: {tensors, weight}; weight is undefined where the round uses none.
//
// payload: of the task; contributor: that of the task
// onProgress({step, share, loss}): called as `step` proceeds, "reading" or "training"
export async function updateOf(server, payload, contributor, onProgress, signal) {
  const kinds = {count: countWords, train: trainOnText};
  if (!Object.hasOwn(kinds, payload.kind)) {
    throw new Error(`the task is of kind "${payload.kind}", which this page does not know`);
  }
  onProgress({step: "reading", share: 0});
  const words = wordsOf(await textOf(contributor, signal));
  return kinds[payload.kind](server, payload, contributor, words, onProgress, signal);
}

async function textOf(contributor, signal) {
  const response = await fetch(`texts/${encodeURIComponent(contributor)}.txt`, {signal});
  if (!response.ok) {
    throw new Error(`the text of ${contributor} cannot be read: HTTP status ${response.status}`);
  }
  return response.text();
}

async function countWords(server, payload, contributor, words) {
  const {hashes, counts} = await hashCounts(words);
  const names = ["occurrences", "documents"];
  return {tensors: names.map(name => sparseTensor(name, hashes, counts, [HASH_SPACE]))};
}

async function trainOnText(server, payload, contributor, words, onProgress, signal) {
  const vocabulary = await vocabularyOf(server, payload.vocabulary, signal);
  const random = new Random(`${payload.seed} ${contributor}`);
  const plan = planTraining(await vocabulary.idsOf(words), vocabulary.counts, random);
  const rows = {input: plan.inputRows, output: plan.outputRows, bias: plan.outputRows};
  const parameters = await readRows(server, payload.model, rows, signal);
  const local = Object.fromEntries([...parameters].map(([name, {values}]) => [name, values]));
  const changes = await train(local, plan, {
    passes: payload.passes,
    rate: payload.learningRate,
    random,
    onProgress: (share, loss) => onProgress({step: "training", share, loss}),
    signal,
  });
  const tensors = Object.entries(changes).map(([name, values]) => {
    const {shape} = parameters.get(name);  // of what was read
    if (!rows[name]) return denseTensor(name, values, shape);
    return sparseTensor(name, rows[name], values, [vocabulary.counts.length, ...shape.slice(1)]);
  });
  return {tensors, weight: plan.examples};
}

async function vocabularyOf(server, round, signal) {
  if (known.round !== round) {
    known.vocabulary = new Vocabulary(await readResult(server, {name: round}, signal));
    known.round = round;
  }
  return known.vocabulary;
}

// Reads the wanted rows of the model's tables, and the whole of its dense tensors.
function readRows(server, model, rows, signal) {
  const selections = Object.entries(rows).map(([tensor, wanted]) => selectionOf(tensor, wanted));
  return readResult(server, {name: model, layout: "RESULT_LAYOUT_DENSE", selections}, signal);
}
