/** Scores worlds on all cores, prints a line for each, then the share that holds the rule; draws the worst. */

import type { WorldAnswer, WorldQuestion } from "./worker.ts";
import type { WorldScore } from "./score.ts";

const DRAWN = 10;

/** Worlds of the seeds from `first`, every `stride`th. */
export async function scoreWorlds(count: number, first: number, folder: string): Promise<void> {
  const seeds = Array.from({ length: count }, (_, k) => first + k);
  console.log(
    "seed | end error (m): ours, odometry alone, scans alone | scans, way (m), ms a scan | place | odometry | ...",
  );
  const scores: WorldScore[] = [];
  await answered(seeds.map((seed) => ({ seed, isDrawn: false })), ({ score }) => {
    scores.push(score);
    console.log(lineOf(score));
  });
  summarize(scores);
  const worst = scores.filter(({ holds }) => !holds).toSorted((a, b) => excessOf(b) - excessOf(a)).slice(
    0,
    DRAWN,
  );
  if (worst.length === 0) return;
  await Deno.mkdir(folder, { recursive: true });
  await answered(worst.map(({ seed }) => ({ seed, isDrawn: true })), ({ score, picture }) => {
    const path = `${folder}/world-${score.seed}.png`;
    if (picture) Deno.writeFileSync(path, picture);
    console.log(`drawn: ${path}: ${lineOf(score)}`);
  });
}

async function answered(
  questions: readonly WorldQuestion[],
  take: (answer: WorldAnswer) => void,
): Promise<void> {
  let next = 0;
  const workers = Math.min(navigator.hardwareConcurrency, questions.length);
  await Promise.all(Array.from({ length: workers }, async () => {
    const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    try {
      while (next < questions.length) {
        const done = Promise.withResolvers<WorldAnswer>();
        worker.onmessage = ({ data }: MessageEvent<WorldAnswer>) => done.resolve(data);
        worker.onerror = (event) => done.reject(new Error(event.message));
        worker.postMessage(questions[next++]);
        take(await done.promise);
      }
    } finally {
      worker.terminate();
    }
  }));
}

/** By how much the rule is missed. */
function excessOf({ oursM, odometryM = Infinity, scansM }: WorldScore): number {
  return oursM - Math.min(odometryM, scansM);
}

function lineOf(
  { seed, what, oursM, odometryM, scansM, holds, isLost, scans, wayM, wallMs }: WorldScore,
): string {
  const verdict = holds ? "" : " WORSE";
  const mark = isLost ? " LOST" : verdict;
  return `${seed}${mark} | ${oursM.toFixed(3)}, ${odometryM?.toFixed(3) ?? "-"}, ${
    scansM.toFixed(3)
  } | ${scans}, ${wayM.toFixed(1)}, ${(wallMs / scans).toFixed(1)} | ${what}`;
}

function summarize(scores: readonly WorldScore[]): void {
  const held = scores.filter(({ holds }) => holds).length,
    lost = scores.filter(({ isLost }) => isLost).length;
  const share = (part: number, whole: number) => `${part} of ${whole} (${(100 * part / whole).toFixed(1)} %)`;
  console.log(
    `\nours is at most 1.1 times the better of odometry and scans alone, or 5 cm, in ${
      share(held, scores.length)
    };` +
      ` over 1 m where the better is under 0.3 m in ${lost}`,
  );
  const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]?.toFixed(3) ?? "-";
  console.log(
    `median end error (m): ours ${median(scores.map(({ oursM }) => oursM))}, odometry alone ${
      median(scores.flatMap(({ odometryM }) => odometryM ?? []))
    }, scans alone ${median(scores.map(({ scansM }) => scansM))}`,
  );
  for (const part of [0, 1]) {
    const groups = Map.groupBy(scores, ({ what }) => what.split(" | ")[part].replace(" (b)", ""));
    for (const [name, group] of groups) {
      const held = group.filter(({ holds }) => holds).length;
      console.log(
        `  ${name}: ${share(held, group.length)}, median ours ${
          median(group.map(({ oursM }) => oursM))
        }, scans alone ${median(group.map(({ scansM }) => scansM))}`,
      );
    }
  }
}
