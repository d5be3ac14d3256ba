/**
 * Notices as they travel through PostgreSQL, where every role that may connect to the database hears and sends them.
 *
 * They are sealed with a key that is derived from the control plane's own, so other roles can neither read nor forge
 * them. A sender numbers its pieces, and a listener accepts each number once and only while it is recent, so that
 * replayed pieces are ignored. PostgreSQL limits the length of a notice, so it travels in pieces (`<sender> <number>
 * <time> <piece>/<pieces> <base64>`), each sealed by itself, so that nothing from a stranger is kept.
 */

import { Buffer } from "node:buffer";
import { createCipheriv, createDecipheriv, hkdfSync } from "node:crypto";
import type { Clock } from "../../../base/clock.ts";
import { NOTICE_BYTES_MAX, type NoticeTopic, requireNoticeLength } from "../notices.ts";

/** Bytes of text in a piece; sealed and in base64 they fit into a notice of 8,000 bytes. */
const PIECE_BYTES = 5_500;
const PIECES_MAX = Math.ceil(NOTICE_BYTES_MAX * 3 / PIECE_BYTES);
/**
 * Largest difference between the clocks of two control planes, and how long a listener remembers the numbers of a
 * sender.
 */
const SKEW_MS = 5 * 60_000;
/** Limit of remembered senders; only those that have the key are remembered. */
const SENDERS_MAX = 4_096;
const CIPHER = "aes-256-gcm";
const [KEY_BYTES, NONCE_BYTES, TAG_BYTES] = [32, 12, 16];

/** Seals the notices of one process. */
export class NoticeSealer {
  /** Each process has keys of its own, so no number is sealed twice with one key. */
  readonly #sender = crypto.randomUUID();
  #number = 0;

  constructor(private readonly clock: Pick<Clock, "nowMs">) {}

  /** The pieces of a notice, in their order. */
  seal(topic: NoticeTopic, text: string, secret: string): string[] {
    requireNoticeLength(text);
    const bytes = Buffer.from(text);
    const key = sealingKey(secret, this.#sender);
    const count = Math.max(1, Math.ceil(bytes.length / PIECE_BYTES));
    return Array.from({ length: count }, (_, at) => {
      const number = ++this.#number;
      const head = `${this.#sender} ${number} ${this.clock.nowMs()} ${at + 1}/${count}`;
      const cipher = createCipheriv(CIPHER, key, nonceOf(number)).setAAD(Buffer.from(`${topic} ${head}`));
      const content = cipher.update(bytes.subarray(at * PIECE_BYTES, (at + 1) * PIECE_BYTES));
      return `${head} ${Buffer.concat([content, cipher.final(), cipher.getAuthTag()]).toString("base64")}`;
    });
  }
}

/** What a listener learns from a piece. */
export type HeardPiece =
  | { readonly text: string }
  /** Others of the same notice follow. */
  | { readonly more: true }
  | { readonly refused: "unsealed" | "repeated" | "clock" };

interface Sender {
  number: number;
  heardMs: number;
  pieces: Buffer[];
}

const PIECE = /^([0-9a-f-]{36}) (\d{1,15}) (\d{1,15}) (\d{1,4})\/(\d{1,4}) ([A-Za-z0-9+/=]*)$/;

/** Opens and reassembles the notices of one topic. */
export class NoticeOpener {
  readonly #senders = new Map<string, Sender>();

  constructor(private readonly topic: NoticeTopic, private readonly clock: Pick<Clock, "nowMs">) {}

  /** `secrets` are the valid ones; the sender has used one of them. */
  open(piece: string, secrets: readonly string[]): HeardPiece {
    const [, sender, number, atMs, index, count, sealed = ""] = PIECE.exec(piece) ?? [];
    if (sender === undefined) return { refused: "unsealed" };
    const head = `${this.topic} ${piece.slice(0, piece.lastIndexOf(" "))}`;
    const content = opened(Buffer.from(sealed, "base64"), { head, sender, number: Number(number) }, secrets);
    if (!content) return { refused: "unsealed" };
    if (Math.abs(this.clock.nowMs() - Number(atMs)) > SKEW_MS) return { refused: "clock" };
    const known = this.#known(sender);
    if (Number(number) <= known.number) return { refused: "repeated" };
    known.number = Number(number);
    // If a piece was lost, its notice is dropped.
    if (index === "1") known.pieces = [];
    known.pieces.push(content);
    if (known.pieces.length !== Number(index) || known.pieces.length > PIECES_MAX) known.pieces = [];
    if (known.pieces.length === 0 || index !== count) return { more: true };
    return { text: Buffer.concat(known.pieces.splice(0)).toString() };
  }

  /** The sender, moved to the end as the most recent one. */
  #known(id: string): Sender {
    const nowMs = this.clock.nowMs();
    const known = this.#senders.get(id) ?? { number: 0, heardMs: nowMs, pieces: [] };
    known.heardMs = nowMs;
    this.#senders.delete(id);
    this.#senders.set(id, known);
    for (const [other, { heardMs }] of this.#senders) {
      // Pieces of forgotten senders are refused because of their time.
      if (this.#senders.size <= SENDERS_MAX && nowMs - heardMs <= 2 * SKEW_MS) break;
      this.#senders.delete(other);
    }
    return known;
  }
}

function opened(
  sealed: Buffer,
  { head, sender, number }: { head: string; sender: string; number: number },
  secrets: readonly string[],
): Buffer | undefined {
  if (sealed.length < TAG_BYTES) return undefined;
  for (const secret of secrets) {
    const cipher = createDecipheriv(CIPHER, sealingKey(secret, sender), nonceOf(number));
    cipher.setAAD(Buffer.from(head)).setAuthTag(sealed.subarray(-TAG_BYTES));
    try {
      return Buffer.concat([cipher.update(sealed.subarray(0, -TAG_BYTES)), cipher.final()]);
    } catch {
      // Perhaps it was sealed with another one.
    }
  }
  return undefined;
}

function sealingKey(secret: string, sender: string): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", secret, sender, "svc-cloud notices", KEY_BYTES));
}

function nonceOf(number: number): Uint8Array {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeBigUInt64BE(BigInt(number), NONCE_BYTES - 8);
  return nonce;
}
