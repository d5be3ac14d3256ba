/**
 * The native addon for WebRTC, behind a port; the only file that imports it.
 *
 * The addon is loaded with the first peer, so that a program without peers does not need it. It calls back from its
 * own threads, also after a peer was closed, and ends the whole process if a callback throws. So callbacks of closed
 * peers and channels are dropped, and no callback throws. The first isolate that loads the addon owns it: a second
 * isolate of the same process that loads it ends the process. So only one file of tests may load it; all others use
 * `tests/support/fake_rtc.ts`, or a process of their own.
 *
 * The room owns WebRTC on both sides: peers, session descriptions, and gRPC calls as frames on a data channel.
 */

import { Buffer } from "node:buffer";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { messageOf, SvcError } from "../../base/error.ts";
import { withPacked } from "../../base/native/packed.ts";
import type { Description, DescriptionType } from "./description.ts";
import { chooseServers, type ChosenServers, type IceServer } from "./ice_choice.ts";

export interface PeerOptions {
  readonly iceServers: readonly IceServer[];
  /** Largest message from the other side. */
  readonly messageBytesMax: number;
  /** Called with what is wrong with a server; the peer can do without. */
  readonly serverFailed?: (error: SvcError) => void;
  /** Listens on this address only. */
  readonly bindAddress?: string;
}

export type PeerState = "new" | "connecting" | "connected" | "disconnected" | "failed" | "closed";

/** The events of a peer. */
export interface PeerListener {
  described(description: Description): void;
  /** `candidate:…`, and its medium. */
  candidate(candidate: string, mid: string): void;
  /** All candidates are known. */
  gathered(): void;
  changed(state: PeerState): void;
  /** The other side has opened a channel of its own, which the peer has closed. */
  intruded(): void;
}

/** The events of a data channel. */
export interface ChannelListener {
  opened(): void;
  /** The listener owns the bytes. */
  message(message: Uint8Array | string): void;
  /** No more than `resumeBytes` wait to be sent. */
  drained(): void;
  closed(): void;
}

/** A pre-negotiated data channel: ordered and reliable. */
export interface DataChannel {
  readonly bufferedBytes: number;
  /** The largest message that the other side has announced to take; known when the channel is open. */
  readonly messageBytesMax: number;
  /** Throws `unavailable` if the channel is not open. */
  send(message: Uint8Array | string): void;
}

/** The events of a video track. */
export interface TrackListener {
  /** An RTCP packet of the viewer. */
  feedback(packet: Uint8Array): void;
  closed(): void;
}

/** An outgoing video, as RTP packets. */
export interface VideoTrack {
  /** Whether the viewer has accepted it. */
  readonly isOpen: boolean;
  /** Sends a packet if there is room for it. */
  send(packet: Uint8Array): void;
  close(): void;
}

/** The facts of a video in a session description. */
export interface VideoOptions {
  /** Identifies the track within the peer; never used twice. */
  readonly mid: string;
  /** The name by which the other side finds it. */
  readonly streamId: string;
  readonly ssrc: number;
  readonly payloadType: number;
}

/** One end of a connection. */
export interface NativePeer {
  /** Call it before the first description. `drained` fires at `resumeBytes`. */
  open(label: string, id: number, listener: ChannelListener, resumeBytes: number): DataChannel;
  /** Adds a VP8 video to the next description. */
  addVideo(options: VideoOptions, listener: TrackListener): VideoTrack;
  /** Creates this side's description, delivered to `described`. */
  describe(type: DescriptionType): void;
  /** Applies the other side's description. Throws `invalid_argument` for a malformed one. */
  accept(description: Description): void;
  /** Adds a candidate of the other side. Throws `invalid_argument` for a malformed one. */
  addCandidate(candidate: string, mid: string): void;
  /** `address:port` of this side and of the other, once connected. */
  readonly addresses: { readonly local: string; readonly remote: string } | undefined;
  readonly roundTripMs: number;
  close(): void;
}

/** Makes peers. */
export interface Rtc {
  /** Throws `unavailable` if the addon cannot be loaded, or the computer has no room for a peer. */
  makePeer(options: PeerOptions, listener: PeerListener): Promise<NativePeer>;
}

type Addon = Pick<typeof import("node-datachannel"), "PeerConnection" | "Video">;

/** The package of the addon, by whose name executables embed it. */
export const RTC_PACKAGE = "node-datachannel";
/** The addon in that package's package for a system. */
export const RTC_ADDON = "node_datachannel.node";

/** Peers of the addon, which is loaded with the first one. */
export const nativeRtc: Rtc = {
  makePeer: async (options, listener) => {
    const [addon, chosen] = await Promise.all([
      loadAddon(),
      chooseServers(options.iceServers, options.serverFailed ?? (() => {})),
    ]);
    try {
      return new AddonPeer(addon, options, chosen, listener);
    } catch (error) {
      chosen.close();
      throw error;
    }
  },
};

let loading: Promise<Addon> | undefined;

function loadAddon(): Promise<Addon> {
  loading ??= loaded();
  loading.catch(() => loading = undefined);
  return loading;
}

async function loaded(): Promise<Addon> {
  try {
    const { createRequire } = await import("node:module");
    const require = createRequire(import.meta.url);
    const packed = await withPacked(RTC_PACKAGE, (folder): Addon => require(join(folder, RTC_ADDON)));
    return packed ?? await import("node-datachannel");
  } catch (cause) {
    throw new SvcError("unavailable", "cannot load the WebRTC addon", { cause });
  }
}

class AddonPeer implements NativePeer {
  readonly #addon: Addon;
  readonly #native: InstanceType<Addon["PeerConnection"]>;
  /** Kept, because the addon closes a channel without references. */
  readonly #channels: AddonChannel[] = [];
  #closed = false;

  constructor(
    addon: Addon,
    { messageBytesMax, bindAddress }: PeerOptions,
    private readonly chosen: ChosenServers,
    listener: PeerListener,
  ) {
    this.#addon = addon;
    this.#native = attempt("unavailable", "make a WebRTC peer", () =>
      new addon.PeerConnection("svc", {
        iceServers: [...chosen.servers],
        disableAutoNegotiation: true,
        maxMessageSize: messageBytesMax,
        // Videos come later, when the connection is there.
        forceMediaTransport: true,
        bindAddress: bindAddress ?? (isAlone() ? LOOPBACK : undefined),
      }));

    const native = this.#native;
    native.onLocalDescription((sdp, type) => {
      if (type === "offer" || type === "answer") this.#tell(() => listener.described({ type, sdp }));
    });

    const reported = new Set<string>();
    const candidate = (text: string, mid: string) => {
      const line = text.replace(/^a=/, "");
      if (reported.has(line)) return;
      reported.add(line);
      listener.candidate(line, mid);
    };
    native.onLocalCandidate((text, mid) => this.#tell(() => candidate(text, mid)));
    native.onGatheringStateChange((state) => {
      if (state !== "complete") return;
      this.#tell(() => {
        // The addon may report the end before the last candidates; its description has them all.
        for (const [line, mid] of candidatesIn(native.localDescription()?.sdp ?? "")) candidate(line, mid);
        listener.gathered();
      });
    });
    native.onStateChange((state) => this.#tell(() => listener.changed(state as PeerState)));
    native.onDataChannel((channel) => {
      this.#tell(() => {
        channel.close();
        listener.intruded();
      });
    });
  }

  open(label: string, id: number, listener: ChannelListener, resumeBytes: number): DataChannel {
    const native = this.#native.createDataChannel(label, { negotiated: true, id });
    const channel = new AddonChannel(native, (run) => this.#tell(run), listener, resumeBytes);
    this.#channels.push(channel);
    return channel;
  }

  addVideo({ mid, streamId, ssrc, payloadType }: VideoOptions, listener: TrackListener): VideoTrack {
    const description = new this.#addon.Video(mid, "SendOnly");
    description.addVP8Codec(payloadType);
    description.addSSRC(ssrc, mid, streamId, mid);
    const native = attempt("unavailable", "add a video", () => this.#native.addTrack(description));
    native.onMessage((packet) => this.#tell(() => listener.feedback(packet)));
    native.onClosed(() => this.#tell(() => listener.closed()));
    return new AddonTrack(native);
  }

  describe(type: DescriptionType): void {
    attempt("internal", `make an ${type}`, () => this.#native.setLocalDescription(type));
  }

  accept({ type, sdp }: Description): void {
    attempt("invalid_argument", `use the ${type}`, () => this.#native.setRemoteDescription(sdp, type));
  }

  addCandidate(candidate: string, mid: string): void {
    if (this.#closed) return;
    attempt(
      "invalid_argument",
      "use the ICE candidate",
      () => this.#native.addRemoteCandidate(candidate, mid),
    );
  }

  get addresses() {
    const pair = this.#closed ? null : this.#native.getSelectedCandidatePair();
    return pair ? { local: addressOf(pair.local), remote: addressOf(pair.remote) } : undefined;
  }

  get roundTripMs(): number {
    return this.#closed ? 0 : this.#native.rtt();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#channels.length = 0;
    this.#native.close();
    this.chosen.close();
  }

  /** Runs a callback. An error in it is a bug, which must not end the process: it ends the peer. */
  #tell(run: () => void): void {
    if (this.#closed) return;
    try {
      run();
    } catch (error) {
      this.close();
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}

class AddonTrack implements VideoTrack {
  #closed = false;

  constructor(private readonly native: ReturnType<InstanceType<Addon["PeerConnection"]>["addTrack"]>) {}

  get isOpen(): boolean {
    return !this.#closed && this.native.isOpen();
  }

  send(packet: Uint8Array): void {
    if (this.isOpen) {
      attempt("unavailable", "send a video", () => this.native.sendMessageBinary(Buffer.from(packet)));
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.native.close();
  }
}

class AddonChannel implements DataChannel {
  constructor(
    private readonly native: ReturnType<InstanceType<Addon["PeerConnection"]>["createDataChannel"]>,
    tell: (run: () => void) => void,
    listener: ChannelListener,
    resumeBytes: number,
  ) {
    native.onOpen(() => tell(() => listener.opened()));
    native.onMessage((message) => {
      tell(() => listener.message(message instanceof ArrayBuffer ? new Uint8Array(message) : message));
    });
    native.setBufferedAmountLowThreshold(resumeBytes);
    native.onBufferedAmountLow(() => tell(() => listener.drained()));
    native.onClosed(() => tell(() => listener.closed()));
  }

  get bufferedBytes(): number {
    return attempt("unavailable", "ask a data channel", () => this.native.bufferedAmount());
  }

  get messageBytesMax(): number {
    return attempt("unavailable", "ask a data channel", () => this.native.maxMessageSize());
  }

  send(message: Uint8Array | string): void {
    attempt("unavailable", "send on a data channel", () => {
      if (typeof message === "string") this.native.sendMessage(message);
      else this.native.sendMessageBinary(message);
    });
  }
}

const LOOPBACK = "127.0.0.1";

/** Whether this computer has no network: then the addon, which ignores loopback addresses, finds none at all. */
function isAlone(): boolean {
  return Object.values(networkInterfaces()).every((all) => all?.every(({ internal }) => internal) ?? true);
}

function attempt<T>(code: "unavailable" | "internal" | "invalid_argument", what: string, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    const problem = messageOf(cause).replace(/^libdatachannel error (while [^:]*: )?/, "");
    throw new SvcError(code, `cannot ${what}: ${problem}`, { cause });
  }
}

function addressOf({ address, port }: { readonly address: string; readonly port: number }): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

/** The candidates of a description, each with its medium. */
function candidatesIn(sdp: string): [string, string][] {
  const found: [string, string][] = [];
  let mid = "0";
  for (const section of sdp.split(/^(?=m=)/m)) {
    mid = /^a=mid:(\S+)/m.exec(section)?.[1] ?? mid;
    for (const [, line = ""] of section.matchAll(/^a=(candidate:[^\r\n]+)/gm)) found.push([line, mid]);
  }
  return found;
}
