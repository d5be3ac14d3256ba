/**
 * Two machines behind routers and their control plane in the open (`world.ts`): each machine is called from the other
 * one's home, directly, as a remote and through TURN, and streams survive cuts and kills.
 */

import { commandIn, type Net, openNet, type Place } from "./world.ts";
import { type Example, svcCloud } from "../cloud/program.ts";
import { blockWith, ROOT } from "../docs/pages.ts";
import { until } from "../support/until.ts";

const [PORT, STUN_PORT, TURN_PORT, OWN_TURN_PORT] = [8090, 3478, 3479, 3480];
const SECRET = "known to both";
const DIALS = 4;
/** Who may use the relay that the second machine names in its configuration. */
const OWN_TURN = { username: "second", credential: "its own" };

/** A caller's report; see caller.ts. */
interface Line {
  readonly connected?: { readonly local: string; readonly remote: string };
  readonly refused?: string;
  readonly calls?: number;
  readonly tick?: string;
  readonly lost?: string;
}

export interface PlayOptions {
  /** Number of successive calls of each caller. */
  readonly calls: number;
  /** How long the way is cut; 0 for not at all. */
  readonly cutMs: number;
  /** Also by TURN, which takes coturn. */
  readonly turn: boolean;
  readonly tell: (line: string) => void;
}

/** Throws where anything does not become as it should. */
export async function playNat({ calls, cutMs, turn, tell }: PlayOptions): Promise<void> {
  await using stage = new Stage(await openNet());
  const { net } = stage;
  tell(net.weather);
  const owner = await stage.build(turn);
  const callers = await Promise.all([0, 1].map((from) => directCall(stage, from, owner, calls, tell)));
  tell(`${await net.lost()} packets were lost on the way`);
  if (cutMs > 0) {
    const above = await remoteCall(stage, owner, tell);
    await cut(stage, [...callers, above], cutMs, tell);
    await above.stop();
  }
  if (turn) await relay(stage, callers, owner, tell);
}

/**
 * From one home to the machine in the other. Where the packet that opens the direct way is lost, the relay is the first
 * way to work; so it may dial again.
 */
async function directCall(
  stage: Stage,
  from: number,
  owner: Key,
  calls: number,
  tell: (line: string) => void,
): Promise<Spoken> {
  const { homes } = stage.net;
  const wanted = homes[1 - from].outside;
  for (let dial = 1;; dial++) {
    const caller = await stage.call(homes[from], stage.hosts[1 - from], owner, calls);
    const { remote = "" } = await caller.output(({ connected }) => connected);
    await caller.output((line) => line.calls === calls);
    await caller.output(({ tick }) => tick);
    if (remote.startsWith(`${wanted}:`)) {
      tell(`home ${from + 1}: ${calls} calls and a stream, directly to ${remote} at dial ${dial}`);
      return caller;
    }
    await caller.stop();
    if (dial === DIALS) throw new Error(`connected to ${remote} ${DIALS} times, wanted ${wanted} itself`);
  }
}

/** Through the first machine to its remote, the second one, which is killed and started again. */
async function remoteCall(stage: Stage, owner: Key, tell: (line: string) => void): Promise<Spoken> {
  const { homes } = stage.net;
  const { id, key } = owner;
  const auth = { entity: id, credentials: { type: "api-key", payload: key } };
  await stage.configure(0, { remotes: [{ name: "far", address: stage.hosts[1], auth }] });
  const caller = await stage.call(homes[1], stage.hosts[0], owner, 0, "far:board");
  await caller.output(({ tick }) => tick);
  tell("a stream of the second machine, a remote of the first one, through that");
  const killed = performance.now();
  const before = caller.lines.length;
  await stage.restart(1);
  await caller.output(({ lost }) => lost, before);
  await caller.output(({ tick }) => tick, before + 1);
  const s = ((performance.now() - killed) / 1000).toFixed(1);
  tell(`the stream goes on ${s} s after the second machine was killed and started again`);
  return caller;
}

/** No packet passes for a while; then the streams continue, however late, without a restart. */
async function cut(stage: Stage, callers: readonly Spoken[], cutMs: number, tell: (line: string) => void) {
  await stage.net.pass("nothing");
  const before = callers.map(({ lines }) => lines.length);
  await new Promise((resolve) => setTimeout(resolve, cutMs));
  await stage.net.pass("all");
  const healed = performance.now();
  for (const [index, caller] of callers.entries()) {
    const who = index < 2 ? `home ${index + 1}` : "through the remote";
    await caller.output(({ tick }) => tick, before[index]);
    const { length } = caller.lines.slice(before[index]).filter(({ connected }) => connected);
    const how = length > 0 ? "over a new connection" : "over the same connection";
    const s = ((performance.now() - healed) / 1000).toFixed(1);
    tell(`${who}: the stream goes on ${s} s after a cut of ${cutMs / 1000} s, ${how}`);
  }
}

/** The homes do not reach each other, so a relay carries their traffic. */
async function relay(stage: Stage, callers: readonly Spoken[], owner: Key, tell: (line: string) => void) {
  for (const caller of callers) await caller.stop();
  const { net } = stage;
  await net.pass("only through the control plane");
  await relayedCall(stage, owner, "the control plane's TURN server", tell);
  await stage.stopRelay();
  await relayedCall(stage, owner, "the machine's own TURN server, over TCP", tell);
}

async function relayedCall(stage: Stage, owner: Key, by: string, tell: (line: string) => void) {
  const { net } = stage;
  const caller = await stage.call(net.homes[0], stage.hosts[1], owner, 20);
  const { local, remote } = await caller.output(({ connected }) => connected);
  const relayed = [local, remote].some((address) => address.startsWith(`${net.cloud.address}:`));
  if (!relayed) {
    throw new Error(`connected from ${local} to ${remote}, wanted the relay ${net.cloud.address}`);
  }
  await caller.output((line) => line.calls === 20);
  await caller.output(({ tick }) => tick);
  tell(`without a direct way: 20 calls and a stream through ${by} (${local} to ${remote})`);
  await caller.stop();
}

interface Key {
  readonly id: string;
  readonly key: string;
}

/** Everything that runs in the net. */
class Stage implements AsyncDisposable {
  readonly #running: Spoken[] = [];
  readonly #folder = Deno.makeTempDirSync({ prefix: "svc-net-" });
  /** The names of the machines. */
  hosts: readonly string[] = [];
  #relay: Spoken | undefined;
  #machines: Spoken[] = [];
  #parts: string[] = [];

  constructor(readonly net: Net) {}

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#running.map((one) => one.stop()));
    await this.net.close();
    await Deno.remove(this.#folder, { recursive: true });
  }

  /** Starts the control plane, the relay and both machines; gives the key of their owner. */
  async build(turn: boolean): Promise<Key> {
    const { cloud, homes } = this.net;
    const data = ["--data", `${this.#folder}/data`];
    const example: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
    const other = JSON.parse(await svcCloud("machine", "create", "second", ...data, "--json"));
    const sections = [example.config, other.config];
    await Deno.writeTextFile(`${this.#folder}/secret`, SECRET);
    const address = `http://${cloud.address}:${PORT}`;
    const flags = [
      ...data,
      ...["--listen", `0.0.0.0:${PORT}`, "--public-url", address, "--stun", `${cloud.address}:${STUN_PORT}`],
      ...turn
        ? [
          ...["--turn", `turn:${cloud.address}:${TURN_PORT}?transport=udp`],
          ...["--turn-secret-file", `${this.#folder}/secret`],
        ]
        : [],
    ];
    if (turn) {
      const { username, credential } = OWN_TURN;
      this.#relay = await this.#turnServer(TURN_PORT, `use-auth-secret\nstatic-auth-secret=${SECRET}`);
      await this.#turnServer(OWN_TURN_PORT, `no-udp\nlt-cred-mech\nuser=${username}:${credential}`);
    }
    const served = this.deno(cloud, "cli/cloud/main.ts", ["serve", ...flags]);
    await served.wrote("serving");
    this.#parts = sections.map(({ cloud }) => cloud.id as string);
    await Promise.all(homes.map((_, index) => this.#describe(index, sections[index], turn)));
    this.hosts = await Promise.all(homes.map((_, index) => nameOf(`${this.#folder}/home${index}`)));
    return example.ownerKey;
  }

  /** Gives a machine its board, and `more`. */
  async configure(index: number, more: object = {}): Promise<void> {
    const attributes = { digital_interrupts: [{ name: "tick", pin: "1" }] };
    const config = {
      network: { bind_address: "localhost:0" },
      components: [{ name: "board", api: "rdk:component:board", model: "fake", attributes }],
      ...more,
    };
    const file = `${this.#folder}/config${index}.json`;
    await Deno.writeTextFile(file, JSON.stringify(config));
    await svcCloud("config", "set", this.#parts[index], file, "--data", `${this.#folder}/data`);
  }

  /** Kills a machine, and starts it again. */
  async restart(index: number): Promise<void> {
    await this.#machines[index].stop("SIGKILL");
    await this.#run(index);
  }

  /** Ends the control plane's relay. */
  async stopRelay(): Promise<void> {
    await this.#relay!.stop();
  }

  /** Starts coturn with the file that the documentation shows, and `allowed` in place of the secret there. */
  async #turnServer(port: number, allowed: string): Promise<Spoken> {
    const { cloud: { address } } = this.net;
    const shown = (await blockWith("docs/webrtc.md", "use-auth-secret")).text
      .replace(/^use-auth-secret\nstatic-auth-secret=.*$/m, allowed)
      .replace(/^listening-port=.*$/m, `listening-port=${port}`);
    const file = `${this.#folder}/turn${port}`;
    const own = [`listening-ip=${address}`, `relay-ip=${address}`, "log-file=stdout", `pidfile=${file}.pid`];
    await Deno.writeTextFile(`${file}.conf`, [shown, ...own, ""].join("\n"));
    const relay = this.#start(this.net.cloud, "turnserver", ["-c", `${file}.conf`]);
    await relay.wrote("Total General servers");
    return relay;
  }

  /** Makes a machine known, and starts it. */
  async #describe(index: number, section: Example["config"], turn: boolean): Promise<void> {
    const { address } = this.net.cloud;
    await this.configure(index);
    const cloud = { ...section.cloud, app_address: `http://${address}:${PORT}` };
    const own = { urls: [`turn:${address}:${OWN_TURN_PORT}?transport=tcp`], ...OWN_TURN };
    const webrtc = { ice_servers: turn && index === 1 ? [own] : [] };
    await Deno.writeTextFile(this.#fileOf(index), JSON.stringify({ cloud, network: { webrtc } }));
    await this.#run(index);
  }

  async #run(index: number): Promise<void> {
    const args = ["-config", this.#fileOf(index), "-allow-insecure-creds", "-disable-mdns"];
    const env = { SVC_HOME: `${this.#folder}/home${index}` };
    this.#machines[index] = this.deno(this.net.homes[index], "cli/server/main.ts", args, env);
    await this.#machines[index].wrote("machine is running");
  }

  #fileOf(index: number): string {
    return `${this.#folder}/machine${index}.json`;
  }

  /** Calls a machine from somewhere. */
  async call(place: Place, host: string, { id, key }: Key, calls: number, board = "board"): Promise<Spoken> {
    const address = `http://${this.net.cloud.address}:${PORT}`;
    const caller = this.deno(place, "tests/net/caller.ts", [address, id, key, host, String(calls), board]);
    await caller.wrote("connected");
    return caller;
  }

  deno(place: Place, module: string, args: readonly string[], env: Record<string, string> = {}): Spoken {
    return this.#start(place, Deno.execPath(), ["run", "-A", `${ROOT}${module}`, ...args], env);
  }

  #start(place: Place, program: string, args: readonly string[], env: Record<string, string> = {}): Spoken {
    const spoken = new Spoken(...commandIn(place, program, args), env);
    this.#running.push(spoken);
    return spoken;
  }
}

/** The name that the control plane has for a machine, from the copy of the configuration that the machine keeps. */
async function nameOf(home: string): Promise<string> {
  const found = async () => {
    for await (const { name, isFile } of Deno.readDir(home)) {
      if (!isFile || !name.endsWith(".json")) continue;
      const fqdn = JSON.parse(await Deno.readTextFile(`${home}/${name}`)).cloud?.fqdn;
      if (fqdn) return fqdn as string;
    }
  };
  return await until(() => found().catch(() => undefined));
}

/** A process, and its output. */
class Spoken {
  text = "";
  readonly #child: Deno.ChildProcess;
  readonly #read: Promise<unknown>;

  constructor(program: string, args: string[], env: Record<string, string>) {
    const io = { stdin: "null", stdout: "piped", stderr: "piped" } as const;
    this.#child = new Deno.Command(program, { args, env, ...io }).spawn();
    this.#read = Promise.all([this.#listen(this.#child.stdout), this.#listen(this.#child.stderr)]);
  }

  /** Its reports, in lines of JSON. */
  get lines(): Line[] {
    return this.text.split("\n").slice(0, -1).filter((line) => line.startsWith("{")).map((line) =>
      JSON.parse(line)
    );
  }

  async wrote(text: string): Promise<void> {
    await until(() => this.text.includes(text), { withinMs: 120_000, found: () => this.text });
  }

  /** The first thing of a kind that it tells, after the first `from` lines. */
  async output<T>(look: (line: Line) => T | undefined, from = 0): Promise<T> {
    const found = () => this.lines.slice(from).map(look).find((one) => one !== undefined && one !== false);
    return await until(found, { withinMs: 180_000, found: () => this.text }) as T;
  }

  async stop(signal: Deno.Signal = "SIGTERM"): Promise<void> {
    try {
      this.#child.kill(signal);
    } catch {
      // It has ended already.
    }
    await this.#child.status;
    await this.#read;
  }

  async #listen(stream: ReadableStream<Uint8Array>): Promise<void> {
    for await (const chunk of stream.pipeThrough(new TextDecoderStream())) this.text += chunk;
  }
}
