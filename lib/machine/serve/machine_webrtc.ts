/**
 * WebRTC on the machine's own port: clients arrange a connection through SignalingService, and the machine answers.
 *
 * Calls over a peer go through the same table as calls to the port. A caller shows its token to signaling; the machine
 * checks each of its calls by this token, and cuts the peer when the token ends.
 */

import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Auth } from "../../wire/auth/auth.ts";
import type { CallContext, Peer, ServiceTable } from "../../wire/rpc/service.ts";
import type { Permissions } from "./permissions.ts";
import type { Rtc } from "../../wire/webrtc/addon.ts";
import type { IceServer } from "../../wire/webrtc/ice_choice.ts";
import type { WebRtcLimits } from "../../wire/webrtc/limits.ts";
import type { RtcPeer } from "../../wire/webrtc/peer.ts";
import { Answerer } from "../../wire/signaling/answerer.ts";
import { CallQueue } from "../../wire/signaling/call_queue.ts";
import { signalingService } from "../../wire/signaling/service.ts";

/** The WebRTC settings of a configuration. */
export interface WebRtcSettings {
  readonly limits?: Partial<WebRtcLimits>;
  /** For the machine and for its callers. */
  readonly iceServers?: readonly IceServer[];
}

export interface MachineWebRtcParts {
  /** The services of the port; signaling is added to them. */
  readonly table: ServiceTable;
  /** Without it, everybody may call. */
  readonly guard?: Auth;
  readonly permissions?: Permissions;
  /** The machine's names at this time. */
  readonly names: () => readonly string[];
  /** The settings of the configuration in force. */
  readonly settings?: () => WebRtcSettings;
  /** Another signaling service that brings calls. */
  readonly elsewhere?: CallsElsewhere;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called for each connected peer; returns a function for the peer's end. */
  readonly joined?: (peer: RtcPeer, identity: Peer) => () => void;
  /** Creates peers; by default the addon. */
  readonly rtc?: Rtc;
}

/** Passes on the calls from another signaling service, until it is closed. */
export type CallsElsewhere = (answer: Answerer["answer"]) => {
  /** The machine may have other names. */
  renamed(): void;
  close(): Promise<void>;
};

/** The machine's name in the queue: every call to the machine's own signaling is for the machine. */
const THIS_MACHINE = "";

export class MachineWebRtc {
  readonly #queue: CallQueue;
  readonly #answerer: Answerer;
  readonly #over = new AbortController();
  readonly #answering: Promise<void>;
  readonly #elsewhere: ReturnType<CallsElsewhere> | undefined;

  constructor(
    { table, guard, permissions, names, settings = () => ({}), elsewhere, clock, logger, joined, rtc }:
      MachineWebRtcParts,
  ) {
    this.#queue = new CallQueue({ clock });
    this.#answerer = new Answerer({
      table,
      clock,
      logger,
      rtc,
      limits: () => settings().limits ?? {},
      iceServers: () => settings().iceServers ?? [],
      joined: (peer, identity) => {
        const left = joined?.(peer, identity);
        const leave = (reason: SvcError) => peer.close(reason);
        const gone = [guard?.stay(identity, leave), permissions?.stay(identity, leave)];
        return () => {
          left?.();
          for (const end of gone) end?.();
        };
      },
    });

    const hostOf = (name: string, ctx: CallContext) => isHere(name, names(), ctx) ? THIS_MACHINE : undefined;
    table.add(
      signalingService({ queue: this.#queue, clock, hostOf, iceServers: () => settings().iceServers ?? [] }),
    );
    this.#answering = this.#answerAll();
    this.#elsewhere = elsewhere?.((call, options) => this.#answerer.answer(call, options));
  }

  renamed(): void {
    this.#elsewhere?.renamed();
  }

  /** Takes no more calls, waits up to `deadlineMs` for those under way, then ends all peers. */
  async close(deadlineMs: number): Promise<void> {
    this.#over.abort(new SvcError("canceled", "the port is closed"));
    this.#queue.close();
    await Promise.all([this.#answering, this.#elsewhere?.close(), this.#answerer.close(deadlineMs)]);
  }

  async #answerAll(): Promise<void> {
    const { signal } = this.#over;
    while (!signal.aborted) {
      const call = await this.#queue.take([THIS_MACHINE], signal).catch(() => undefined);
      if (call) void this.#answerer.answer(call);
    }
  }
}

/**
 * Whether a name is one of the machine's, or the address that the caller used; with or without a port. Behind a reverse
 * proxy that names itself to the machine, the browser tells the address of its page. A name gives nobody any rights.
 */
function isHere(name: string, names: readonly string[], { peer, requestHeader }: CallContext): boolean {
  const wanted = withoutScheme(name).toLowerCase();
  const reached = [peer.origin, peer.addressed, requestHeader.get("origin")]
    .flatMap((one) => one === undefined ? [] : [withoutScheme(one)]);
  return [...names, ...reached].some((one) => {
    const known = one.toLowerCase();
    return wanted === known || hostOfAddress(wanted) === hostOfAddress(known);
  });
}

function withoutScheme(address: string): string {
  return address.replace(/^[a-z]+:\/\//i, "").replace(/\/$/, "");
}

function hostOfAddress(address: string): string {
  return address.replace(/:\d+$/, "");
}
