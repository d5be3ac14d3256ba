/**
 * What a card knows of its resource: its client, its calls with their outcomes, and what it asks again and again.
 *
 * A card calls its client by the name of a method and by named arguments. So the card can show the same call as code,
 * and what it shows is what it did.
 */

import type { RobotClient } from "@viamrobotics/sdk";
import { getContext, setContext } from "svelte";
import { batchedClient } from "../link/call_batch.ts";
import { linkProblem, type PageLink, useLink } from "../link/page_link.svelte.ts";
import { type Poll, poll, type PollOptions } from "../link/poll.svelte.ts";

const CONTEXT = Symbol("the card");
const SESSION_EXPIRED = "SESSION_EXPIRED";
/** A person who has waited so long for a movement does not expect it any more. */
const LATE_MS = 2000;
const LATE = "nothing was done: the machine heard of it too late";

/** A call as code shows it: the method of the library for TypeScript, and its arguments in order. */
export interface CardCall {
  readonly method: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** What cards get: a resource. */
export interface CardProps {
  /** `rdk:component:motor` */
  readonly api: string;
  readonly name: string;
}

type ClientClass<C> = new (robot: RobotClient, name: string) => C;
type MethodOf<C> = {
  [K in keyof C]: C[K] extends (...args: never[]) => unknown ? K : never;
}[keyof C];
type AnswerOf<C, M extends keyof C> = C[M] extends (...args: never[]) => infer R ? Awaited<R> : never;

/** The frame of a card, shared by all that stands in it. */
export class CardFrame {
  /** The last call of the person. */
  last = $state.raw<CardCall>();
  problem = $state<string>();
  /** Calls of the person that have not ended. */
  underWay = $state(0);

  constructor(readonly props: () => CardProps) {}

  get busy(): boolean {
    return this.underWay > 0;
  }
}

export function provideCard(props: () => CardProps): CardFrame {
  return setContext(CONTEXT, new CardFrame(props));
}

export function useCard(): CardFrame {
  return getContext<CardFrame>(CONTEXT);
}

/** A resource by the client class of its type. */
export class CardResource<C extends object> {
  readonly #frame: CardFrame;
  readonly #link: PageLink;
  readonly #clientOf: ClientClass<C>;
  readonly #name = $derived.by(() => this.#frame.props().name);
  readonly client = $derived.by(() => this.#clientBy(this.#link.client));
  /** For what is asked again and again. */
  readonly #batched = $derived.by(() =>
    this.#clientBy(this.#link.client && batchedClient(this.#link.client))
  );

  constructor(clientOf: ClientClass<C>, frame: CardFrame, link: PageLink) {
    this.#clientOf = clientOf;
    this.#frame = frame;
    this.#link = link;
  }

  #clientBy(robot: RobotClient | undefined): C | undefined {
    return robot && new this.#clientOf(robot, this.#name);
  }

  /** Makes a call for the person; shows its problem in the card, and returns `undefined` then. */
  async act<M extends MethodOf<C>>(
    method: M & string,
    args: Readonly<Record<string, unknown>> = {},
  ): Promise<AnswerOf<C, M> | undefined> {
    const frame = this.#frame;
    const missing = missingNumber(args);
    if (missing !== undefined) {
      frame.problem = `nothing was done: there is no number for ${missing}`;
      return undefined;
    }
    frame.last = { method, args };
    frame.problem = undefined;
    frame.underWay++;
    try {
      return await this.call(method, args);
    } catch (error) {
      frame.problem = linkProblem(error);
      return undefined;
    } finally {
      frame.underWay--;
    }
  }

  /** The same without a trace in the card; throws. */
  async call<M extends MethodOf<C>>(
    method: M & string,
    args: Readonly<Record<string, unknown>> = {},
    client = this.client,
  ): Promise<AnswerOf<C, M>> {
    if (!client) throw new Error("the machine is not connected");
    const values = Object.values(args);
    const robot = this.#link.client;
    const startMs = performance.now();
    const run = client[method] as unknown as (...values: unknown[]) => Promise<AnswerOf<C, M>>;
    try {
      return await run.apply(client, values);
    } catch (error) {
      const isLate = robot !== this.#link.client || performance.now() - startMs > LATE_MS;
      if (!isSessionOver(error)) throw error;
      if (isLate) throw new Error(LATE);

      // The machine has done nothing of it: it refuses calls of a session that has ended.
      this.#link.renewSession();
      return await run.apply(client, values);
    }
  }

  /** Asks again and again while the card is seen; for the beginning of a component. */
  poll<M extends MethodOf<C>>(
    method: M & string,
    everyMs: number | (() => number),
    args: Readonly<Record<string, unknown>> = {},
    options?: PollOptions<AnswerOf<C, M>>,
  ): Poll<AnswerOf<C, M>> {
    return poll(() => this.call(method, args, this.#batched), everyMs, options);
  }
}

/**
 * The first argument without a number. A field that is empty, or has a text that its browser takes for no number, such
 * as `1,5`, has `null`: in a message it would become 0, and a motor would go there.
 */
function missingNumber(args: Readonly<Record<string, unknown>>): string | undefined {
  return Object.entries(args).find(([, value]) => lacksNumber(value))?.[0];
}

function lacksNumber(value: unknown): boolean {
  if (typeof value === "number") return Number.isNaN(value);
  if (typeof value !== "object") return false;
  if (value === null) return true;
  const isPlain = Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
  return isPlain && Object.values(value).some(lacksNumber);
}

/** By its message: over WebRTC the published library tells no code. */
function isSessionOver(error: unknown): boolean {
  return linkProblem(error).includes(SESSION_EXPIRED);
}

/** For the beginning of a card. */
export function useResource<C extends object>(clientOf: ClientClass<C>): CardResource<C> {
  return new CardResource(clientOf, useCard(), useLink());
}
