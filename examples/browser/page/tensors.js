// Sparse tensors on their way to the server and back (docs/wire_format.md, encoding coo.raw).
// Numbers are little-endian on the wire, as they are in the typed arrays of every processor that
// runs browsers.

const WHOLE_BYTES_MAX = 1 << 20;  // larger updates go in chunks, which survive a lost connection
const CHUNK_BYTES = 1 << 20;
const READ_BYTES = 4 << 20;

const AGGREGATION = "AggregationService";
const VALUE_TYPES = {
  VALUE_TYPE_F32: Float32Array,
  VALUE_TYPE_I64: BigInt64Array,
  VALUE_TYPE_U64: BigUint64Array,
};
const INDEX_TYPES = {
  INDEX_TYPE_I32: Int32Array,
  INDEX_TYPE_I64: BigInt64Array,
};

// An update's tensor: some rows of a tensor of `shape`, whose first dimension is the sparse one.
//
// indices: Int32Array or BigInt64Array [nnz]
// values: Float32Array or BigInt64Array [nnz, values of a row]
export function sparseTensor(name, indices, values, shape) {
  return {name, indices, values, shape, sparseDim: 1, nnz: indices.length};
}

// An update's tensor with all its values.
export function denseTensor(name, values, shape) {
  return {name, indices: new Int32Array(0), values, shape, sparseDim: 0, nnz: 1};
}

// Submits an update, in one message or in chunks, and returns its receipt.
//
// header: {round, contributor, updateId, weight}; an update that is sent again keeps its updateId
// onProgress(share): called with the share that the server holds
export async function submit(server, header, tensors, {onProgress = () => {}, signal} = {}) {
  const parts = tensors.flatMap(({indices, values}) => [bytesOf(indices), bytesOf(values)]);
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  if (size > WHOLE_BYTES_MAX) {
    const begin = {header, tensors: tensors.map(headerOf)};
    return uploadChunks(server, begin, concatenated(parts, size), onProgress, signal);
  }
  return server.call(AGGREGATION, "SubmitUpdate", {header, tensors: tensors.map(whole)}, signal);
}

function whole(tensor) {
  const [indices, values] = [tensor.indices, tensor.values].map(array => toBase64(bytesOf(array)));
  return {header: headerOf(tensor), indices, values};
}

// Sends the byte string of an update in chunks. A call that got no answer is repeated; where the
// server has another offset, as after a restart, it says so and the upload goes on from there.
async function uploadChunks(server, begin, bytes, onProgress, signal) {
  let next = chunkAt(bytes, 0);
  for (;;) {
    let answer;
    try {
      answer = await server.call(AGGREGATION, "UploadChunk", {begin, chunk: next}, signal);
    } catch (error) {
      if (error.reason !== "OFFSET_MISMATCH") throw error;
      // Asks for the offset.
      answer = await server.call(AGGREGATION, "UploadChunk", {begin}, signal);
    }
    if (answer.receipt) {
      onProgress(1);
      return answer.receipt;
    }
    const offset = Number(answer.progress.committedOffset ?? 0);
    onProgress(offset / bytes.length);
    next = chunkAt(bytes, offset);
  }
}

function chunkAt(bytes, offset) {
  const data = bytes.subarray(offset, offset + CHUNK_BYTES);
  return {offset, data: toBase64(data), crc32c: crc32c(data)};
}

// Reads the result of a published round: a Map of name to {indices, values, shape}.
//
// request: a GetAggregateRequest: {name, tensors, layout, selections}
export async function readResult(server, request, signal) {
  const first = await readFrom(server, request, 0, signal);
  const size = Number(first.totalBytes ?? 0);
  const bytes = new Uint8Array(size);
  let offset = 0;
  for (let answer = first;; answer = await readFrom(server, request, offset, signal)) {
    const data = fromBase64(answer.chunk.data ?? "");
    bytes.set(data, offset);
    offset += data.length;
    if (offset >= size) break;
  }
  return tensorsIn(first.header.tensors, bytes.buffer);
}

function readFrom(server, result, offset, signal) {
  return server.call(AGGREGATION, "ReadResult", {result, offset, bytes: READ_BYTES}, signal);
}

// Returns a selection of rows for `readResult`.
export function selectionOf(tensor, rows) {
  return {tensor, indexType: "INDEX_TYPE_I32", indices: toBase64(bytesOf(rows))};
}

function tensorsIn(headers, buffer) {
  const tensors = new Map();
  let at = 0;
  const take = (type, bytes) => {
    const end = at + Number(bytes ?? 0);
    const array = new type(buffer.slice(at, end));  // a copy is aligned for its type
    at = end;
    return array;
  };
  for (const header of headers) {
    const indices = take(INDEX_TYPES[header.indexType ?? "INDEX_TYPE_I64"], header.indicesBytes);
    const type = VALUE_TYPES[header.valueType];
    if (!type) throw new Error(`values of ${header.valueType} cannot be read here`);
    const values = take(type, header.valuesBytes);
    tensors.set(header.name, {indices, values, shape: header.denseShape.map(Number)});
  }
  return tensors;
}

function headerOf({name, indices, values, shape, sparseDim, nnz}) {
  return {
    name,
    valueType: nameIn(VALUE_TYPES, values),
    denseShape: shape.map(String),
    sparseDim,
    indexType: nameIn(INDEX_TYPES, indices),
    nnz,
    indicesBytes: indices.byteLength,
    valuesBytes: values.byteLength,
  };
}

function nameIn(types, array) {
  return Object.keys(types).find(name => array instanceof types[name]);
}

function bytesOf(array) {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

function concatenated(parts, size) {
  const bytes = new Uint8Array(size);
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
}

// Bytes as JSON has them. Newer browsers have a function for it.
export function toBase64(bytes) {
  if (bytes.toBase64) return bytes.toBase64();
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  }
  return btoa(text);
}

export function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  return Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
}

const CRC_TABLE = Uint32Array.from({length: 256}, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; ++bit) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  return crc;
});

// The checksum of a chunk (Castagnoli): the server refuses a chunk that was damaged on its way.
export function crc32c(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC_TABLE[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}
