/**
 * The order in which the variables of a sparse symmetric matrix are eliminated: minimum degree. It decides how many
 * blocks the factor of the matrix has.
 */

const ELIMINATED_A_PIECE = 1000;

export interface Elimination {
  readonly variable: number;
  /** The variables that share a block with it when it is eliminated. */
  readonly neighbours: Int32Array;
}

/**
 * Eliminates the variable with the fewest neighbours first; of equals, the one that became so last. `pairs` holds the
 * variables (a, b, a, b, …) whose blocks are not zero. Yields now and then.
 */
export function* eliminating(
  count: number,
  pairs: Int32Array,
): Generator<void, readonly Elimination[]> {
  const neighbours = adjacency(count, pairs);
  const queue = new DegreeQueue(neighbours.map((one) => one.length));
  const order: Elimination[] = [];
  const marks = new Int32Array(count);
  let mark = 0;
  for (let variable = queue.take(); variable !== undefined; variable = queue.take()) {
    if (order.length % ELIMINATED_A_PIECE === 0) yield;
    const clique = Int32Array.from(neighbours[variable] ?? []);
    order.push({ variable, neighbours: clique });
    neighbours[variable] = [];
    for (const one of clique) {
      const own = neighbours[one] ?? [];
      marks[one] = ++mark;
      let kept = 0;
      for (const other of own) {
        if (other === variable) continue;
        marks[other] = mark;
        own[kept++] = other;
      }
      own.length = kept;
      for (const other of clique) if (marks[other] !== mark) own.push(other);
      queue.put(one, own.length);
    }
  }
  return order;
}

function adjacency(count: number, pairs: Int32Array): number[][] {
  const neighbours = Array.from({ length: count }, (): number[] => []);
  for (let k = 0; k < pairs.length; k += 2) {
    const a = pairs[k] ?? 0, b = pairs[k + 1] ?? 0;
    if (a === b) continue;
    neighbours[a]?.push(b);
    neighbours[b]?.push(a);
  }
  return neighbours.map((one) => [...new Set(one)]);
}

/** Variables by their degree, as a stack for each degree. */
class DegreeQueue {
  /** -1 for a variable that has been taken. */
  readonly #degrees: number[];
  /** A variable also stays on the stacks of its former degrees. */
  readonly #stacks: number[][];
  #lowest = 0;

  constructor(degrees: number[]) {
    this.#degrees = degrees;
    this.#stacks = degrees.map(() => []);
    for (const [variable, degree] of [...degrees.entries()].reverse()) this.put(variable, degree);
  }

  /** Puts a variable on top of those of its degree, at first or after a change. */
  put(variable: number, degree: number): void {
    this.#degrees[variable] = degree;
    this.#stacks[degree]?.push(variable);
    this.#lowest = Math.min(this.#lowest, degree);
  }

  /** Undefined once all have been taken. */
  take(): number | undefined {
    for (let stack = this.#stacks[this.#lowest]; stack; stack = this.#stacks[++this.#lowest]) {
      for (let variable = stack.pop(); variable !== undefined; variable = stack.pop()) {
        if (this.#degrees[variable] !== this.#lowest) continue;
        this.#degrees[variable] = -1;
        return variable;
      }
    }
    return undefined;
  }
}
