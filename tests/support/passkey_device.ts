/** A WebAuthn authenticator for tests, which answers honestly, or falsely in the way that a test asks for. */

import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { Buffer } from "node:buffer";

/** What an answer says other than an honest one does. */
export interface Lie {
  readonly origin?: string;
  readonly rpId?: string;
  readonly challenge?: string;
  readonly type?: string;
  readonly crossOrigin?: boolean;
  readonly flags?: number;
  readonly counter?: number;
  readonly userHandle?: string | null;
  /** The signature is another key's. */
  readonly otherKey?: boolean;
  /** The attestation's format and statement, in CBOR. */
  readonly attestation?: { readonly fmt: string; readonly statement: Uint8Array };
}

export interface Asked {
  readonly challenge: string;
  readonly rp?: { readonly id: string };
  readonly rpId?: string;
  readonly user?: { readonly id: string };
}

const PRESENT_VERIFIED = 0x05;
const WITH_CREDENTIAL = 0x40;

export class PasskeyDevice {
  readonly id = randomBytes(32).toString("base64url");
  counter = 0;
  #userHandle = "";
  readonly #keys = generateKeyPairSync("ec", { namedCurve: "P-256" });

  constructor(private readonly origin: string) {}

  /** Answers `navigator.credentials.create`. */
  create({ challenge, rp, user }: Asked, lie: Lie = {}) {
    this.#userHandle = user!.id;
    const id = Buffer.from(this.id, "base64url");
    const length = Buffer.from([id.length >> 8, id.length & 0xff]);
    const credential = Buffer.concat([Buffer.alloc(16), length, id, coseOf(this.#keys.publicKey)]);
    const flags = (lie.flags ?? PRESENT_VERIFIED) | WITH_CREDENTIAL;
    const data = Buffer.concat([dataOf(lie.rpId ?? rp!.id, flags, this.counter), credential]);
    const { fmt, statement } = lie.attestation ?? { fmt: "none", statement: Buffer.from([0xa0]) };
    const object = Buffer.concat([
      Buffer.from([0xa3]),
      ...[text("fmt"), text(fmt), text("attStmt"), Buffer.from(statement), text("authData"), bytes(data)],
    ]);
    const clientDataJSON = this.#clientData("webauthn.create", challenge, lie);
    return answer(this.id, { clientDataJSON, attestationObject: object.toString("base64url") });
  }

  /** Answers `navigator.credentials.get`. */
  get({ challenge, rpId }: Asked, lie: Lie = {}) {
    const counter = lie.counter ?? (this.counter === 0 ? 0 : ++this.counter);
    const data = dataOf(lie.rpId ?? rpId!, lie.flags ?? PRESENT_VERIFIED, counter);
    const clientDataJSON = this.#clientData("webauthn.get", challenge, lie);
    const signed = Buffer.concat([
      data,
      createHash("sha256").update(Buffer.from(clientDataJSON, "base64url")).digest(),
    ]);
    const other = () => generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
    const signature = sign("sha256", signed, lie.otherKey ? other() : this.#keys.privateKey);
    return answer(this.id, {
      clientDataJSON,
      authenticatorData: data.toString("base64url"),
      signature: signature.toString("base64url"),
      userHandle: lie.userHandle === undefined ? this.#userHandle : lie.userHandle,
    });
  }

  #clientData(type: string, challenge: string, lie: Lie): string {
    const clientData = {
      type: lie.type ?? type,
      challenge: lie.challenge ?? challenge,
      origin: lie.origin ?? this.origin,
      crossOrigin: lie.crossOrigin ?? false,
    };
    return Buffer.from(JSON.stringify(clientData)).toString("base64url");
  }
}

function answer(id: string, response: Readonly<Record<string, unknown>>) {
  return { id, rawId: id, type: "public-key", response };
}

function dataOf(rpId: string, flags: number, counter: number): Buffer {
  const rest = Buffer.alloc(5);
  rest[0] = flags;
  rest.writeUInt32BE(counter, 1);
  return Buffer.concat([createHash("sha256").update(rpId).digest(), rest]);
}

/** `{1: 2, 3: -7, -1: 1, -2: x, -3: y}` */
function coseOf(key: KeyObject): Buffer {
  const { x, y } = key.export({ format: "jwk" });
  const coordinate = (text: string) => bytes(Buffer.from(text, "base64url"));
  return Buffer.concat([
    Buffer.from([0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21]),
    coordinate(x!),
    Buffer.from([0x22]),
    coordinate(y!),
  ]);
}

function text(value: string): Buffer {
  const encoded = Buffer.from(value);
  return Buffer.concat([Buffer.from([0x60 + encoded.length]), encoded]);
}

function bytes(value: Buffer): Buffer {
  const { length } = value;
  const head = length < 0x100 ? [0x58, length] : [0x59, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from(head), value]);
}
