/**
 * Peers without the addon and without a network: both ends are in this program, and find each other by their
 * descriptions. All events happen in later turns, as with the addon.
 */

import { nextTurn } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type {
  ChannelListener,
  DataChannel,
  NativePeer,
  PeerListener,
  PeerOptions,
  Rtc,
  TrackListener,
  VideoOptions,
  VideoTrack,
} from "../../lib/wire/webrtc/addon.ts";
import type { Description, DescriptionType } from "../../lib/wire/webrtc/description.ts";

export class FakeRtc implements Rtc {
  /** All peers, the latest last. */
  readonly peers: FakePeer[] = [];
  /** The options of each peer. */
  readonly options: PeerOptions[] = [];

  makePeer(options: PeerOptions, listener: PeerListener): Promise<FakePeer> {
    const peer = new FakePeer(this, this.peers.length, listener);
    this.peers.push(peer);
    this.options.push(options);
    return Promise.resolve(peer);
  }

  /** Number of open peers. */
  get open(): number {
    return this.peers.filter(({ closed }) => !closed).length;
  }
}

export class FakePeer implements NativePeer {
  closed = false;
  /** The received candidates. */
  readonly candidates: string[] = [];
  readonly tracks: FakeTrack[] = [];
  readonly channels = new Map<number, FakeChannel>();
  readonly roundTripMs = 0;
  #other: FakePeer | undefined;
  #connected = false;

  constructor(
    private readonly rtc: FakeRtc,
    private readonly number: number,
    readonly listener: PeerListener,
  ) {}

  get addresses() {
    const other = this.#other;
    return other && { local: `192.0.2.1:${this.number}`, remote: `192.0.2.1:${other.number}` };
  }

  open(_label: string, id: number, listener: ChannelListener, resumeBytes: number): DataChannel {
    const other = () => this.#other?.channels.get(id);
    const channel = new FakeChannel((run) => this.tell(run), listener, resumeBytes, other);
    this.channels.set(id, channel);
    return channel;
  }

  addVideo(options: VideoOptions, listener: TrackListener): FakeTrack {
    const track = new FakeTrack(options, listener);
    this.tracks.push(track);
    return track;
  }

  describe(type: DescriptionType): void {
    const { listener, number } = this;
    this.tell(() => listener.described({ type, sdp: `v=0\r\na=fake:${number}\r\n` }));
    if (this.#connected) return;
    this.tell(() => listener.candidate(`candidate:1 1 UDP 1 192.0.2.1 ${number} typ host`, "0"));
    this.tell(() => listener.gathered());
    if (type === "answer") this.#connect();
  }

  accept({ type, sdp }: Description): void {
    const number = /a=fake:(\d+)/.exec(sdp)?.[1];
    const other = number === undefined ? undefined : this.rtc.peers[Number(number)];
    if (!other) throw new SvcError("invalid_argument", `cannot use the ${type}: it is of no fake peer`);
    this.#other = other;
    if (type === "answer") this.#connect();
  }

  addCandidate(candidate: string): void {
    this.candidates.push(candidate);
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#other?.lose();
  }

  /** The other side has gone. */
  lose(): void {
    this.tell(() => this.listener.changed("closed"));
  }

  /** Runs in a later turn, unless it is closed by then. */
  tell(run: () => void): void {
    nextTurn(() => {
      if (!this.closed) run();
    });
  }

  #connect(): void {
    const other = this.#other;
    if (!other || other.#other !== this || this.#connected) return;
    for (const peer of [this, other]) {
      peer.#connected = true;
      peer.tell(() => peer.listener.changed("connected"));
      for (const channel of peer.channels.values()) peer.tell(() => channel.listener.opened());
    }
  }
}

export class FakeTrack implements VideoTrack {
  isOpen = true;
  readonly packets: Uint8Array[] = [];

  constructor(readonly options: VideoOptions, readonly listener: TrackListener) {}

  send(packet: Uint8Array): void {
    if (this.isOpen) this.packets.push(packet);
  }

  close(): void {
    this.isOpen = false;
  }
}

export class FakeChannel implements DataChannel {
  bufferedBytes = 0;
  messageBytesMax = 65_536;
  /** Nothing leaves it. */
  blocked = false;
  #held: (Uint8Array | string)[] = [];

  constructor(
    private readonly tell: (run: () => void) => void,
    readonly listener: ChannelListener,
    private readonly resumeBytes: number,
    private readonly other: () => FakeChannel | undefined,
  ) {}

  send(message: Uint8Array | string): void {
    this.bufferedBytes += message.length;
    this.#held.push(typeof message === "string" ? message : message.slice());
    if (!this.blocked) this.flush();
  }

  /** Releases the held data. */
  flush(): void {
    for (const message of this.#held.splice(0)) {
      this.tell(() => {
        const before = this.bufferedBytes;
        this.bufferedBytes -= message.length;
        const other = this.other();
        other?.tell(() => other.listener.message(message));
        if (before > this.resumeBytes && this.bufferedBytes <= this.resumeBytes) this.listener.drained();
      });
    }
  }
}
