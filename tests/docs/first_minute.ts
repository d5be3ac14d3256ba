/**
 * `deno task first:minute`: types what README tells a newcomer, in a clean home, and prints the time from the clone to
 * the first turned motor, downloads included. `--python` turns it from Python in place of TypeScript.
 *
 * It needs port 8080, as README does.
 */

import { blockWith, ROOT } from "./pages.ts";

const LIMIT_S = 90;
const START_MS = 300_000;
const DEMO = "npx --yes deno@2.9.6 task demo";
const CALL = [
  "npx",
  "--yes",
  "deno@2.9.6",
  "run",
  "-A",
  "cli/server/main.ts",
  "call",
  "motor1",
  "GetPosition",
  "--json",
];

interface Step {
  readonly name: string;
  readonly seconds: number;
}

const steps: Step[] = [];

async function timed<T>(name: string, work: () => Promise<T>): Promise<T> {
  const from = performance.now();
  const value = await work();
  const seconds = (performance.now() - from) / 1000;
  steps.push({ name, seconds });
  console.log(`${seconds.toFixed(1).padStart(7)} s  ${name}`);
  return value;
}

/** Runs a command to its end; returns its output. */
async function run(
  folder: string,
  env: Record<string, string>,
  ...[command, ...args]: string[]
): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(command, { args, cwd: folder, env, stdin: "null" })
    .output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (code !== 0) {
    throw new Error(`${command} ${args.join(" ")} ended with ${code}\n${text(stdout)}${text(stderr)}`);
  }
  return text(stdout);
}

/** Starts the demo and resolves with its process when it says that it runs. */
async function startDemo(folder: string, env: Record<string, string>): Promise<Deno.ChildProcess> {
  const [command, ...args] = DEMO.split(" ");
  // A group of its own, which ends as a whole.
  const child = new Deno.Command(command, {
    args,
    cwd: folder,
    env,
    stdin: "null",
    stdout: "piped",
    detached: true,
  })
    .spawn();
  const late = setTimeout(() => end(child), START_MS);
  let output = "";
  for await (
    const chunk of child.stdout.pipeThrough(new TextDecoderStream()).values({ preventCancel: true })
  ) {
    output += chunk;
    if (!output.includes("machine is running")) continue;
    clearTimeout(late);
    return child;
  }
  throw new Error(`the demo ended before it ran:\n${output}`);
}

function end(child: Deno.ChildProcess): void {
  try {
    Deno.kill(-child.pid, "SIGTERM");
  } catch {
    // It has ended.
  }
}

async function turnFromTypeScript(folder: string, env: Record<string, string>): Promise<void> {
  const { text } = await blockWith("README.md", "MotorClient");
  await Deno.writeTextFile(`${folder}/demo.mjs`, text);
  await timed("npm install @viamrobotics/sdk", () => run(folder, env, "npm", "install", "@viamrobotics/sdk"));
  await timed("node demo.mjs: the motor turns", () => run(folder, env, "node", "demo.mjs"));
}

async function turnFromPython(folder: string, env: Record<string, string>): Promise<void> {
  const { text } = await blockWith("README.md", "RobotClient.at_address");
  await Deno.writeTextFile(`${folder}/demo.py`, text);
  await timed("pip install viam-sdk", async () => {
    await run(folder, env, "python3", "-m", "venv", "venv");
    await run(folder, env, "venv/bin/pip", "install", "--quiet", "viam-sdk");
  });
  await timed("python demo.py: the motor turns", () => run(folder, env, "venv/bin/python", "demo.py"));
}

async function main(): Promise<number> {
  const home = await Deno.makeTempDir({ prefix: "svc-first-minute-" });
  const env = {
    HOME: home,
    npm_config_cache: `${home}/npm`,
    DENO_DIR: `${home}/deno`,
    NO_COLOR: "1",
    PIP_NO_CACHE_DIR: "1",
  };
  let demo: Deno.ChildProcess | undefined;
  try {
    const tree = `${home}/svc`;
    await timed(
      "git clone",
      () => run(home, env, "git", "clone", "--quiet", "--depth", "1", `file://${ROOT}`, tree),
    );
    demo = await timed(DEMO, () => startDemo(tree, env));
    const work = `${home}/work`;
    await Deno.mkdir(work);
    if (Deno.args.includes("--python")) await turnFromPython(work, env);
    else await turnFromTypeScript(work, env);
    const seconds = steps.reduce((sum, one) => sum + one.seconds, 0);
    const { position } = JSON.parse(await run(tree, env, ...CALL));
    if (!(position > 1.5)) throw new Error(`the motor stands at ${position} revolutions, wanted 2`);
    const verdict = seconds <= LIMIT_S ? "within" : "over";
    console.log(
      `${
        seconds.toFixed(1).padStart(7)
      } s  from the clone to the first turned motor, ${verdict} ${LIMIT_S} s`,
    );
    return seconds <= LIMIT_S ? 0 : 1;
  } finally {
    if (demo) {
      end(demo);
      await demo.stdout.cancel().catch(() => {});
      await demo.status;
    }
    await Deno.remove(home, { recursive: true });
  }
}

if (import.meta.main) Deno.exit(await main());
