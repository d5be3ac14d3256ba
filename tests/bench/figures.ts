/**
 * How a benchmark measures and prints: what every section shares.
 */

const REPEATS = 5;

/** The middle one of a few measurements. */
export async function median(measure: () => Promise<number>): Promise<number> {
  const figures: number[] = [];
  for (let repeat = 0; repeat < REPEATS; repeat++) figures.push(await measure());
  return figures.sort((a, b) => a - b)[Math.floor(REPEATS / 2)];
}

export function heading(text: string): void {
  console.log(`\n${text}`);
}

export function row(name: string, ...figures: string[]): void {
  console.log(`  ${name.padEnd(30)}${figures.map((figure) => figure.padEnd(20)).join("  ")}`.trimEnd());
}

export function rate(perSecond: number): string {
  return `${perSecond.toFixed(0)} /s`;
}
