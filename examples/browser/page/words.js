// Words of a text, the hash that stands for a word before there is a vocabulary, and the vocabulary
// itself: as in examples/word_embeddings/documents.py.

// Words are counted at hash(word) in an index space of 2^62, so that nobody needs a common list of
// words first.
export const HASH_SPACE = 1n << 62n;
// A word enters the vocabulary if this number of documents has it.
const DOCUMENTS_MIN = 2n;

// Returns the words of a text in their order.
export function wordsOf(text) {
  return text.toLowerCase().match(/[a-z]{2,}/g) ?? [];
}

// Returns the hash of each distinct word: a Map of word to BigInt.
export async function hashesOf(words) {
  const encoder = new TextEncoder();
  const distinct = [...new Set(words)];
  const digests = await Promise.all(
      distinct.map(word => crypto.subtle.digest("SHA-256", encoder.encode(word))));
  return new Map(distinct.map((word, i) => [word, hashIn(digests[i])]));
}

// The first 8 bytes of a digest, little-endian, modulo HASH_SPACE.
function hashIn(digest) {
  return new DataView(digest).getBigUint64(0, true) & (HASH_SPACE - 1n);
}

// Returns how often each word occurs: {hashes, counts}, both BigInt64Array [distinct words].
export async function hashCounts(words) {
  const hashes = await hashesOf(words);
  const counts = new Map();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0n) + 1n);
  return {
    hashes: BigInt64Array.from(counts.keys(), word => hashes.get(word)),
    counts: BigInt64Array.from(counts.values()),
  };
}

// The words of the model: word i occurs `counts[i]` times in all documents together. The most
// frequent come first.
export class Vocabulary {
  #idOf;

  // result: the aggregate of the round that counted words. Tensor "occurrences" has how often each
  // word occurs, "documents" in how many documents; both have the same hashes as indices.
  constructor(result) {
    const {indices: hashes, values: occurrences} = result.get("occurrences");
    const documents = result.get("documents").values;
    const common = [...hashes.keys()].filter(i => documents[i] >= DOCUMENTS_MIN);
    common.sort((i, j) => compare(occurrences[j], occurrences[i]) || compare(hashes[i], hashes[j]));
    this.counts = Float64Array.from(common, i => Number(occurrences[i]));
    this.#idOf = new Map(common.map((i, id) => [hashes[i], id]));
  }

  // Returns the ids of those words that the vocabulary has, in their order: Int32Array.
  async idsOf(words) {
    const hashes = await hashesOf(words);
    const ids = words.map(word => this.#idOf.get(hashes.get(word)));
    return Int32Array.from(ids.filter(id => id !== undefined));
  }
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
