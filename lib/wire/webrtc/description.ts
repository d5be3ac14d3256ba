/** Session descriptions and ICE candidates as they travel: base64 of a JSON object (published), and lines of SDP. */

import { Buffer } from "node:buffer";
import { SvcError } from "../../base/error.ts";
import { CANDIDATE_BYTES_MAX, DESCRIPTION_BYTES_MAX } from "./limits.ts";

export type DescriptionType = "offer" | "answer";

/** A session description of one side. */
export interface Description {
  readonly type: DescriptionType;
  readonly sdp: string;
}

/** A possible address of a peer. */
export interface IceCandidate {
  /** `candidate:1 1 UDP 2114977791 192.0.2.2 60269 typ host` */
  readonly candidate: string;
  readonly mid?: string;
}

export function encodeDescription({ type, sdp }: Description): string {
  return Buffer.from(JSON.stringify({ type, sdp })).toString("base64");
}

/** Parses a description of the wanted type. Throws `invalid_argument`, with the problem. */
export function decodeDescription(text: string, wanted: DescriptionType): Description {
  const bad = (problem: string) => new SvcError("invalid_argument", `the session description ${problem}`);
  if (text.length > DESCRIPTION_BYTES_MAX) {
    throw bad(`has ${text.length} characters, wanted at most ${DESCRIPTION_BYTES_MAX}`);
  }
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) throw bad("is not base64");

  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(text, "base64").toString());
  } catch {
    throw bad("is not JSON");
  }

  const { type, sdp } = (value ?? {}) as { type?: unknown; sdp?: unknown };
  if (type !== wanted) throw bad(`has the type ${JSON.stringify(type)}, wanted "${wanted}"`);
  if (typeof sdp !== "string" || !sdp.startsWith("v=0")) throw bad("has no SDP");

  return { type: wanted, sdp };
}

/**
 * The same answer with the DTLS role of its first part in all parts. Browsers give another one for a removed video,
 * and the addon rejects an answer with two roles.
 */
export function withOneRole({ type, sdp }: Description): Description {
  const role = /^a=setup:(\w+)/m.exec(sdp)?.[1];
  return role === undefined ? { type, sdp } : { type, sdp: sdp.replace(/^a=setup:\w+/gm, `a=setup:${role}`) };
}

/** A description without its candidates, and the candidates of its first part, which all parts share. */
export function withoutCandidates(
  { type, sdp }: Description,
): { bare: Description; candidates: IceCandidate[] } {
  const lines = /^a=(candidate:[^\r\n]*)(?:\r?\n|$)/gm;
  const [, first = ""] = sdp.split(/^(?=m=)/m);
  const mid = /^a=mid:(\S+)/m.exec(first)?.[1];
  const candidates = Array.from(first.matchAll(lines), ([, candidate = ""]) => ({ candidate, mid }));
  return { bare: { type, sdp: sdp.replace(lines, "") }, candidates };
}

/**
 * Whether to try a candidate of the other side: an address over UDP, or a multicast DNS name, by which browsers hide
 * theirs. Other names are not resolved: a stranger must not make this computer look up names.
 */
export function isUsable({ candidate }: IceCandidate): boolean {
  if (candidate.length > CANDIDATE_BYTES_MAX) return false;
  const [, , protocol, , address] = candidate.replace(/^a=/, "").split(" ");
  if (protocol?.toLowerCase() !== "udp" || address === undefined) return false;
  return /^[0-9.]+$|^[0-9a-f:.]*:[0-9a-f:.]*$|^[0-9a-z-]+\.local$/i.test(address);
}

/** Whether a candidate is an address of the peer's own computer, as opposed to a NAT or a relay. */
export function isOwnAddress({ candidate }: IceCandidate): boolean {
  return candidate.split(" ")[7] === "host";
}

/** The same socket at the loopback address; `undefined` unless `candidate` is an IPv4 address of this computer. */
export function onLoopback(candidate: string): string | undefined {
  const parts = candidate.split(" ");
  const [, , protocol, , address = "", , , type] = parts;
  if (protocol?.toLowerCase() !== "udp" || type !== "host" || !/^[0-9.]+$/.test(address)) {
    return undefined;
  }
  if (address.startsWith("127.")) return undefined;
  // A foundation of its own, and the lowest priority.
  parts[0] = "candidate:127";
  parts[3] = "1";
  parts[4] = "127.0.0.1";
  return parts.join(" ");
}
