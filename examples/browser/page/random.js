// Random numbers that can be repeated: xoshiro128** (Blackman and Vigna 2018). A task that another
// tab does again draws the same numbers, so its update has the same bits.

export class Random {
  #state;

  // seed: any text; equal texts give equal numbers.
  constructor(seed) {
    let hash = 0x811c9dc5;  // FNV-1a, then splitmix32 for the four words of the state
    for (const byte of new TextEncoder().encode(seed)) {
      hash = Math.imul(hash ^ byte, 0x01000193);
    }
    this.#state = new Uint32Array(4);
    for (let i = 0; i < 4; ++i) {
      hash = (hash + 0x9e3779b9) | 0;
      let mixed = Math.imul(hash ^ (hash >>> 16), 0x21f0aaad);
      mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
      this.#state[i] = mixed ^ (mixed >>> 15);
    }
  }

  // Returns 32 random bits as a number from 0 to 2^32 - 1.
  bits() {
    const s = this.#state;
    const scrambled = Math.imul(s[1], 5);
    const result = Math.imul((scrambled << 7) | (scrambled >>> 25), 9) >>> 0;
    const shifted = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = (s[3] << 11) | (s[3] >>> 21);
    return result;
  }

  // Returns a multiple of 2^-53 from 0 to below 1.
  unit() {
    return ((this.bits() >>> 5) * 0x4000000 + (this.bits() >>> 6)) / 0x20000000000000;
  }

  // Returns a whole number from 0 to below `limit`.
  below(limit) {
    return Math.floor(this.unit() * limit);
  }

  // Returns the numbers from 0 to below `size` in random order.
  permutation(size) {
    const order = Int32Array.from({length: size}, (_, i) => i);
    for (let i = size - 1; i > 0; --i) {
      const j = this.below(i + 1);
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }
}
