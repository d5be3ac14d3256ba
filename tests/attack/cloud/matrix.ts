/**
 * The matrix across tenants: every call that the descriptors know, made with the keys of one tenant about the things
 * of another.
 *
 * Each id of the victim is put into each text of each request, once beside the attacker's own ids and once alone. Two
 * things count as leaks: an answer with something of the victim in it that the request did not have, and a row of the
 * victim's in the database that is changed, gone or new after the call.
 */

import type { LoopWatch } from "./loop_watch.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { Store } from "../../../lib/cloud/store/store.ts";
import { UNSERVED } from "../../../lib/cloud/access/unserved.ts";
import { randomFrom } from "../../../lib/geometry/random.ts";
import type { Channel } from "../../../lib/wire/rpc/channel.ts";
import type { DescMethod } from "../../../lib/wire/rpc/proto.ts";
import { pathOf } from "../../../lib/wire/rpc/service.ts";
import { allServices, type Filling, type Place as Spot, placesOf, requestWith } from "./requests.ts";
import { connectAs, type Credentials, type Kind, newTenant, type Place, type Tenant } from "./tenant.ts";
import { workEnded } from "./tenant_work.ts";

export interface MatrixOptions {
  readonly place: Place;
  /** Makes only one in this many requests, chosen by a seed. */
  readonly oneIn: number;
  readonly seed: number;
  readonly say: (line: string) => void;
  readonly watch: LoopWatch;
}

export interface MatrixReport {
  readonly methods: number;
  /** The number that the control plane serves. */
  readonly served: number;
  readonly calls: number;
  /** Methods that told the victim's own owner something, so that a leak through them would have been seen. */
  readonly telling: number;
  readonly leaks: readonly string[];
  /** Calls during which the event loop was busy for too long. */
  readonly delays: readonly string[];
  /** Tables without a row of the victim's: nothing is known of what calls do to such rows. */
  readonly emptyTables: readonly string[];
}

/** Calls under way at once. */
const AT_ONCE = 16;
/** A stream that has said nothing by then has nothing to say. */
const SILENCE_MS = 1_000;
/** Of other calls. One that is given up earlier may still change something, which would be taken for a later call's doing. */
const ANSWER_MS = 60_000;
/** Interval of the lines about the progress. */
const SAY_MS = 60_000;
/** Rows of these tables record the attempts. */
const RECORDS = ["audit", "schema_version"];
/** Columns that record the last contact or look, and change by themselves: of any table, and of one. */
const CLOCKS = ["seen_ms", "used_ms", "at_ms"];
const LOOKS: Readonly<Record<string, readonly string[]>> = {
  trigger_log_marks: ["number", "next_ms"],
  data_retention: ["next_ms"],
  rollouts: ["next_ms"],
  collector_retention: ["next_ms"],
  reading_moves: ["next_ms", "last_number"],
};
const WHO = ["owner", "operator", "machine"] as const;
/** Names of calls that change nothing. */
const READS = /^(Get|List|Export|Tail|Binary|Tabular|Tags|Sequences|BoundingBoxLabels|Config$)/;
type Who = typeof WHO[number] | "neighbour" | "nobody";

interface Attempt {
  readonly method: DescMethod;
  readonly who: Who;
  readonly request: Uint8Array;
  readonly about: string;
}

export async function playMatrix(options: MatrixOptions): Promise<MatrixReport> {
  const { place, say, watch } = options;
  const methods = (await allServices()).flatMap((service) => service.methods);
  const victim = await newTenant(place, "victim");
  // The control plane's own database shows the effects of a call.
  const store = place.connect();
  const neighbour = await connectAs(place, victim.neighbour.key);
  const stranger = await connectAs(place);
  const owner = await connectAs(place, victim.owner);
  let attacker = await Attacker.come(place);
  const leaks = new Set<string>();
  const delays: string[] = [];
  let [calls, served, telling] = [0, 0, 0];
  let empty: string[] = [];
  const random = randomFrom(options.seed);
  const known = Object.values(victim.ids);
  const progress = new MatrixProgress(methods.length, say);
  try {
    await workEnded(store, victim.ids);
    const texts = await textsOf(store, [victim.secret, victim.shared, victim.mark, ...known]);
    let rows = rowsWith(await allRowsOf(store), texts);
    let seen: ReadonlySet<string> = new Set(rows);
    empty = await tablesWithout(store, rows);
    for (const method of methods) {
      progress.next(pathOf(method), calls);
      if (!await isServed(attacker.channels.owner, method)) continue;
      served++;
      const tell = () => tells(owner, method, victim);
      if (READS.test(method.name) && await progress.spend("the owner's calls", tell)) telling++;
      const channels = { ...attacker.channels, neighbour, nobody: stranger };
      const attempts = [...attemptsOf(method, attacker.tenant, victim)].filter(() =>
        random() * options.oneIn < 1
      );
      calls += attempts.length;
      const attack = async (attempt: Attempt) => {
        const logged = newsIn(await answerOf(channels[attempt.who], attempt), attempt.who, victim);
        if (logged.length === 0) return;
        leaks.add(`${attempt.who} was told ${logged.join(", ")} by ${pathOf(method)} (${attempt.about})`);
      };
      await progress.spend("the attacker's calls", () => inTurns(attempts, AT_ONCE, attack));
      for (const late of await watch.look(pathOf(method))) {
        say(`DELAY   ${late}`);
        delays.push(late);
      }
      const tables = await progress.spend("rows of the database", () => allRowsOf(store));
      const now = rowsWith(tables, texts);
      for (const change of changesOf(rows, now, texts)) leaks.add(`${pathOf(method)}: ${change}`);
      const before = new Set(rows);
      const isUnwritten = now.every((row) => seen.has(row));
      seen = new Set(now);
      // A row of an attacker that has the victim's texts is the attacker's own, who may change or remove it.
      rows = now.filter((row) => before.has(row) || refersTo(row, texts));
      // Texts that the attacker has written itself are no leak, so an attacker that wrote one is replaced.
      if (isUnwritten && attacker.isWell(tables)) continue;
      attacker.leave();
      attacker = await progress.spend("new attackers", () => Attacker.come(place));
    }
  } finally {
    for (const channel of [neighbour, stranger, owner]) channel.close();
    attacker.leave();
    await store.close();
  }
  for (const leak of leaks) say(`LEAK ${leak}`);
  return { methods: methods.length, served, calls, telling, leaks: [...leaks], delays, emptyTables: empty };
}

/** Says once a minute how far the matrix is, where its time went, and how long the rest takes at this pace. */
class MatrixProgress {
  readonly #beganMs = performance.now();
  readonly #spentMs = new Map<string, number>();
  #reportedMs = this.#beganMs;
  #done = -1;

  constructor(private readonly methods: number, private readonly say: (line: string) => void) {}

  next(path: string, calls: number): void {
    this.#done++;
    const nowMs = performance.now();
    if (nowMs - this.#reportedMs < SAY_MS) return;
    this.#reportedMs = nowMs;
    const minutes = (ms: number) => `${(ms / 60_000).toFixed(1)} min`;
    const ranMs = nowMs - this.#beganMs;
    const spent = [...this.#spentMs].map(([what, ms]) => `${what} ${minutes(ms)}`).join(", ");
    const left = this.#done === 0
      ? ""
      : `, about ${minutes(ranMs / this.#done * (this.methods - this.#done))} left`;
    this.say(
      `${this.#done} of ${this.methods} methods, ${calls} calls in ${
        minutes(ranMs)
      }${left} (${spent}); ${path}`,
    );
  }

  async spend<T>(what: string, work: () => Promise<T>): Promise<T> {
    const beganMs = performance.now();
    try {
      return await work();
    } finally {
      this.#spentMs.set(what, (this.#spentMs.get(what) ?? 0) + performance.now() - beganMs);
    }
  }
}

/** Whether a call shows the victim's owner what it must not show others. */
async function tells(owner: Channel, method: DescMethod, victim: Tenant): Promise<boolean> {
  const texts = placesOf(method.input).map((spot) => [spot, guess(spot, method, victim)] as const);
  const requests = [...texts.map((one) => [one]), texts, []];
  for (const filling of ["bare", "full"] as const) {
    for (const named of requests) {
      const attempt = {
        method,
        who: "owner",
        request: requestWith(method, named, filling),
        about: "",
      } as const;
      if (newsIn(await answerOf(owner, attempt), "owner", victim).length > 0) return true;
    }
  }
  return false;
}

/** Facts about the victim in an answer that the caller has no right to and did not know. */
function newsIn(answer: string, who: Who, victim: Tenant): string[] {
  const { machine, part, key } = victim.neighbour;
  const others = who === "neighbour" ? [] : [victim.shared, machine, part, key.id];
  return [victim.secret, ...victim.hidden, ...others].filter((secret) => answer.includes(secret));
}

/** The attacking tenant with its connections. It recreates what it destroys of its own. */
class Attacker {
  static async come(place: Place): Promise<Attacker> {
    const tenant = await newTenant(place, "attacker");
    const open = (key: Credentials) => connectAs(place, key);
    return new Attacker(tenant, {
      owner: await open(tenant.owner),
      operator: await open(tenant.operator),
      machine: await open(tenant.machine),
    });
  }

  constructor(
    readonly tenant: Tenant,
    readonly channels: { readonly [K in typeof WHO[number]]: Channel },
  ) {}

  /** Whether all that it came with is still there. */
  isWell(tables: readonly string[]): boolean {
    const ids = [...Object.values(this.tenant.ids), ...WHO.map((who) => this.tenant[who].id)];
    // The id of a package is made of the organization's and its name.
    return ids.every((id) => tables.some((row) => row.includes(id.split("/").at(-1)!)));
  }

  leave(): void {
    for (const channel of Object.values(this.channels)) channel.close();
  }
}

function* attemptsOf(method: DescMethod, own: Tenant, victim: Tenant): Generator<Attempt> {
  const spots = placesOf(method.input);
  const mine = spots.map((spot) => [spot, guess(spot, method, own)] as const);
  const theirs = spots.map((spot) => [spot, guess(spot, method, victim)] as const);
  const make = (
    who: Who,
    texts: readonly (readonly [Spot, string])[],
    filling: Filling,
    about: string,
  ): Attempt => ({ method, who, request: requestWith(method, texts, filling), about });
  for (const who of ["nobody", "neighbour", ...WHO] as const) {
    for (const filling of ["bare", "full"] as const) {
      yield make(who, [], filling, `nothing named, ${filling}`);
      yield make(who, theirs, filling, `all of it the victim's, ${filling}`);
    }
  }
  const ids = [...Object.values(victim.ids), ...victim.words];
  for (const who of [...WHO, "neighbour"] as const) {
    for (const spot of spots) {
      for (const id of ids) {
        const others = mine.filter(([one]) => one !== spot);
        yield make(who, [...others, [spot, id]], "full", `${spot.name} = ${id}, the others the attacker's`);
        yield make(who, [[spot, id]], "bare", `${spot.name} = ${id}`);
      }
    }
  }
}

/** A guess at a request's text by its field's name, as an honest client would fill it in. */
function guess({ name }: Spot, method: DescMethod, tenant: Tenant): string {
  const last = name.split(".").at(-1)!;
  const fixed: Record<string, string> = {
    authorization_type: "role",
    authorization_id: "organization_owner",
    resource_type: "organization",
    identity_type: "api-key",
    resource_id: tenant.ids.organization,
    identity_id: tenant.ids.key,
    version: "1.0.0",
  };
  if (fixed[last]) return fixed[last];
  const words = ["id", "ids", "job_id"].includes(last) ? `${method.name} ${name}`.toLowerCase() : last;
  const signs: readonly (readonly [RegExp, Kind])[] = [
    [/org/, "organization"],
    [/getsequencedatasetexport/, "sequence_export"],
    [/bbox|bounding_box/, "box"],
    [/(get|pause|resume|abort)rollout|listrolloutparts/, "rollout"],
    [/pipeline/, "pipeline"],
    [/savedquer/, "saved_query"],
    [/dataset/, "dataset"],
    [/sequence/, "sequence"],
    [/fragment/, "fragment"],
    [/container/, "container"],
    [/job|training/, "training_job"],
    [/session/, "mapping_session"],
    [/item|module|package|registry/, "package"],
    [/binary|file_id|image/, "data"],
    [/key/, "key"],
    [/part|config|log|certificate|restart/, "part"],
    [/robot|machine/, "machine"],
    [/location/, "location"],
  ];
  const kind = signs.find(([sign]) => sign.test(words))?.[1];
  return kind ? tenant.ids[kind] : `${last} of ${tenant.mark}`;
}

async function isServed(channel: Channel, method: DescMethod): Promise<boolean> {
  const nothing = { method, who: "owner", request: new Uint8Array(), about: "" } as const;
  const answer = await answerOf(channel, nothing);
  return answer !== `unimplemented: ${UNSERVED.get(pathOf(method))}` &&
    !answer.startsWith("unimplemented: The server does not implement");
}

/** All that a call says, its error included. */
async function answerOf(channel: Channel, { method, request }: Attempt): Promise<string> {
  const parts: string[] = [];
  const requests = (async function* () {
    yield request;
  })();
  const timeoutMs = method.methodKind === "unary" ? ANSWER_MS : SILENCE_MS;
  try {
    for await (const bytes of channel.call(method, requests, { timeoutMs })) {
      parts.push(textOf(bytes));
    }
  } catch (error) {
    const { code, message } = SvcError.from(error);
    parts.push(`${code}: ${message}`);
  }
  return parts.join("\n");
}

const utf8 = new TextDecoder();

function textOf(bytes: Uint8Array): string {
  return utf8.decode(bytes);
}

/** Every row of the database, as `table {columns}`. */
async function allRowsOf(store: Store): Promise<string[]> {
  const found: string[] = [];
  for (const name of await tablesOf(store)) {
    const left = [...CLOCKS, ...LOOKS[name] ?? []];
    const shown = (column: string, value: unknown) => {
      if (left.includes(column)) return undefined;
      return value instanceof Uint8Array ? textOf(value) : value;
    };
    for (const row of await store.query(`SELECT * FROM ${name}`)) {
      found.push(`${name} ${JSON.stringify(row, shown)}`);
    }
  }
  return found;
}

/** The rows that have one of these texts in them. */
function rowsWith(rows: readonly string[], texts: readonly string[]): string[] {
  return rows.filter((row) => texts.some((text) => row.includes(text)));
}

/** These texts and the ids of all rows that are of the same owner because they refer to each other. */
async function textsOf(store: Store, texts: readonly string[]): Promise<string[]> {
  const all = new Set(texts);
  const rows = await allRowsOf(store);
  for (let size = 0; size < all.size;) {
    size = all.size;
    for (const row of rowsWith(rows, [...all])) {
      const { id } = JSON.parse(row.slice(row.indexOf(" ") + 1)) as { id?: unknown };
      if (typeof id === "string") all.add(id);
    }
  }
  return [...all];
}

async function tablesOf(store: Store): Promise<string[]> {
  const text = store.notices.shared
    ? "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()"
    : "SELECT name FROM sqlite_master WHERE type = 'table'";
  const rows = await store.query<{ name: string }>(text);
  return rows.map(({ name }) => name).filter((name) => !RECORDS.includes(name));
}

async function tablesWithout(store: Store, rows: readonly string[]): Promise<string[]> {
  return (await tablesOf(store)).filter((name) => !rows.some((row) => row.startsWith(`${name} `)));
}

/** Changes of a victim's rows, and new references to it. Rows of others with its names are their own. */
function changesOf(before: readonly string[], after: readonly string[], ids: readonly string[]): string[] {
  const [old, now] = [new Set(before), new Set(after)];
  const gone = before.filter((row) => !now.has(row)).map((row) => `a row is gone or changed: ${row}`);
  const added = after.filter((row) => !old.has(row) && refersTo(row, ids)).map((row) =>
    `a row is new: ${row}`
  );
  return [...gone, ...added];
}

/** Whether one of the columns that refer to something refers to one of these. */
function refersTo(row: string, ids: readonly string[]): boolean {
  const columns: Record<string, unknown> = JSON.parse(row.slice(row.indexOf(" ") + 1));
  return Object.entries(columns).some(([name, value]) =>
    /(^|_)id$/.test(name) && ids.includes(String(value))
  );
}

/** Runs `work` on all items, a few at once; outcomes in the order of the items. */
async function inTurns<T, R>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const outcomes: R[] = [];
  let next = 0;
  const worker = async () => {
    for (let index = next++; index < items.length; index = next++) outcomes[index] = await work(items[index]);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return outcomes;
}
