// The model: CBOW word embeddings with negative sampling, as in examples/word_embeddings/model.py,
// which has the formulas. V words, D dimensions; a contributor holds only the rows of its own words
// and of its random words.
//
// Parameters are f32 (Float32Array). Sums of a step are computed in f64, and each parameter is
// rounded to f32 when the step is subtracted from it. A difference of two f32 numbers, computed in
// f64 and stored as f32, has the bits of f32 arithmetic: an update is `after - before` in f32.

const WINDOW = 4;            // words on either side
const PLACES = 2 * WINDOW;   // of the words around a word
const NEGATIVES = 5;         // weight of the random words, as if each example had this many
const NEGATIVE_ROWS = 512;   // random words of one contributor in one round ...
const BATCH_NEGATIVES = 64;  // ... of which each batch takes some, shared by its examples
const BATCH = 32;            // examples
// Every example moves the position weights, so they move in smaller steps.
const POSITION_SHARE = 0.1;
// After this time training lets heartbeats and messages have their turn.
const PAUSE_MS = 50;

// What a contributor will train on. Words are row numbers of its own tables.
//
// targets    Int32Array [examples]: rows of `output`
// contexts   Int32Array [examples, PLACES]: rows of `input`
// negatives  Int32Array [NEGATIVE_ROWS]: rows of `output`
// inputRows, outputRows  Int32Array, ascending: the rows of the model that its tables hold
export function planTraining(ids, counts, random) {
  const text = thinOut(ids, counts, random);
  const examples = Math.max(0, text.length - PLACES);
  const targets = new Int32Array(examples);
  const contexts = new Int32Array(examples * PLACES);
  for (let i = 0; i < examples; ++i) {
    targets[i] = text[i + WINDOW];
    for (let p = 0; p < PLACES; ++p) contexts[i * PLACES + p] = text[i + p + (p < WINDOW ? 0 : 1)];
  }
  const negatives = drawNegatives(counts, NEGATIVE_ROWS, random);
  const inputRows = distinct(contexts);
  const outputRows = distinct([...targets, ...negatives]);
  const ofInput = placesOf(inputRows, counts.length);
  const ofOutput = placesOf(outputRows, counts.length);
  return {
    examples,
    inputRows,
    outputRows,
    targets: targets.map(word => ofOutput[word]),
    contexts: contexts.map(word => ofInput[word]),
    negatives: negatives.map(word => ofOutput[word]),
  };
}

// Drops most occurrences of the most frequent words, which say little (word2vec's subsampling).
function thinOut(ids, counts, random) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  return ids.filter(id => random.unit() < Math.sqrt(1e-3 * total / counts[id]));
}

// Random words, frequent ones more often (power 3/4, as in word2vec).
function drawNegatives(counts, size, random) {
  const sums = new Float64Array(counts.length);
  let sum = 0;
  for (let i = 0; i < counts.length; ++i) sums[i] = sum += counts[i] ** 0.75;
  return Int32Array.from({length: size}, () => {
    const wanted = random.unit() * sum;
    let [low, high] = [0, counts.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] > wanted)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  });
}

function distinct(numbers) {
  return Int32Array.from(new Set(numbers)).sort();
}

// Where each word is in `rows`: an array of `size` numbers.
function placesOf(rows, size) {
  const places = new Int32Array(size);
  rows.forEach((word, place) => places[word] = place);
  return places;
}

// A contributor's copy of the rows that it holds.
//
// input [rows, D], output [rows, D], bias [rows], position [PLACES, D]: Float32Array
export class LocalModel {
  constructor({input, output, bias, position}) {
    Object.assign(this, {input, output, bias, position});
    this.dimensions = position.length / PLACES;
    const scratch = size => new Float64Array(size * this.dimensions);
    this.hidden = scratch(BATCH);
    this.ofHidden = scratch(BATCH);
    this.ofInput = scratch(BATCH * PLACES);
    this.ofOutput = scratch(BATCH + BATCH_NEGATIVES);
    this.ofBias = new Float64Array(BATCH + BATCH_NEGATIVES);
    this.ofPosition = scratch(PLACES);
  }

  // Takes one step down the gradient of the summed loss of a batch; returns that loss, as it was
  // before the step.
  //
  // batch: numbers of examples, at most BATCH; negatives: at most BATCH_NEGATIVES rows of `output`
  descend({targets, contexts}, batch, negatives, rate) {
    const words = [...Array.from(batch, example => targets[example]), ...negatives];
    const around = Array.from(batch, i => contexts.subarray(i * PLACES, (i + 1) * PLACES));
    this.#embed(around);
    const loss = this.#differentiateScores(words, batch.length);
    this.#differentiateInput(around);
    this.#subtract(
        this.position, 0, this.ofPosition, 0, PLACES * this.dimensions, POSITION_SHARE * rate);
    const contextRows = around.flatMap(rows => [...rows]);
    contextRows.forEach((row, i) => this.#subtractRow(this.input, row, this.ofInput, i, rate));
    words.forEach((row, i) => this.#subtractRow(this.output, row, this.ofOutput, i, rate));
    words.forEach((row, i) => this.#subtract(this.bias, row, this.ofBias, i, 1, rate));
    return loss;
  }

  // hidden = mean over places p of (position[p] * input[word at p]), for each example of the batch.
  #embed(around) {
    const {input, position, hidden, dimensions: D} = this;
    hidden.fill(0);
    around.forEach((rows, b) => {
      for (let p = 0; p < PLACES; ++p) {
        const row = rows[p] * D;
        const place = p * D;
        for (let d = 0; d < D; ++d)
          hidden[b * D + d] += input[row + d] * position[place + d] / PLACES;
      }
    });
  }

  // The gradients by `output`, `bias` and `hidden`. words: the targets of `examples` examples, then
  // the negatives. An example is scored against its target, which should be high, and against every
  // negative, which should be low.
  #differentiateScores(words, examples) {
    const {output, bias, hidden, ofHidden, ofOutput, ofBias, dimensions: D} = this;
    const weight = NEGATIVES / (words.length - examples);
    let loss = 0;
    ofHidden.fill(0);
    ofOutput.fill(0);
    ofBias.fill(0);
    words.forEach((word, w) => {
      const isTarget = w < examples;
      const row = word * D;
      for (let b = isTarget ? w : 0; b < (isTarget ? w + 1 : examples); ++b) {
        let score = bias[word];
        for (let d = 0; d < D; ++d) score += hidden[b * D + d] * output[row + d];
        loss += isTarget ? softplus(-score) : weight * softplus(score);
        const slope = isTarget ? -sigmoid(-score) : weight * sigmoid(score);
        ofBias[w] += slope;
        for (let d = 0; d < D; ++d) {
          ofHidden[b * D + d] += slope * output[row + d];
          ofOutput[w * D + d] += slope * hidden[b * D + d];
        }
      }
    });
    return loss;
  }

  // The gradients by `input` and `position`, from that by `hidden`.
  #differentiateInput(around) {
    const {input, position, ofHidden, ofInput, ofPosition, dimensions: D} = this;
    ofPosition.fill(0);
    around.forEach((rows, b) => {
      for (let p = 0; p < PLACES; ++p) {
        const row = rows[p] * D;
        for (let d = 0; d < D; ++d) {
          const slope = ofHidden[b * D + d] / PLACES;
          ofInput[(b * PLACES + p) * D + d] = slope * position[p * D + d];
          ofPosition[p * D + d] += slope * input[row + d];
        }
      }
    });
  }

  #subtractRow(table, row, gradient, i, rate) {
    this.#subtract(
        table, row * this.dimensions, gradient, i * this.dimensions, this.dimensions, rate);
  }

  #subtract(table, begin, gradient, gradientBegin, size, rate) {
    for (let i = 0; i < size; ++i) table[begin + i] -= rate * gradient[gradientBegin + i];
  }
}

function sigmoid(x) {
  return 1 / (1 + Math.exp(-x));
}

function softplus(x) {
  return Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
}

// Trains on a plan, and returns by how much each parameter changed: Float32Array of the shape of
// the model's.
//
// parameters: as LocalModel; changed in place
// onProgress(share, loss): called with the share that is done and the mean loss since the last call
// signal: an AbortSignal that ends the training with its reason
export async function train(parameters, plan, {passes, rate, random, onProgress, signal}) {
  const before = Object.entries(parameters).map(([name, values]) => [name, values.slice()]);
  const model = new LocalModel(parameters);
  let [loss, seen, paused] = [0, 0, performance.now()];
  for (let pass = 0; pass < passes; ++pass) {
    const order = random.permutation(plan.examples);
    for (let begin = 0; begin < order.length; begin += BATCH) {
      const batch = order.subarray(begin, begin + BATCH);
      const some = Array.from(
          {length: BATCH_NEGATIVES}, () => plan.negatives[random.below(plan.negatives.length)]);
      loss += model.descend(plan, batch, some, rate);
      seen += batch.length;
      if (performance.now() - paused < PAUSE_MS) continue;
      onProgress((pass + begin / order.length) / passes, loss / seen);
      await new Promise(resolve => setTimeout(resolve));
      signal.throwIfAborted();
      [loss, seen, paused] = [0, 0, performance.now()];
    }
  }
  onProgress(1, seen > 0 ? loss / seen : null);
  const changes =
      before.map(([name, values]) => [name, values.map((value, i) => parameters[name][i] - value)]);
  return Object.fromEntries(changes);
}
