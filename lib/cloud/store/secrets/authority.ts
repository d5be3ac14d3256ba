/**
 * The local certificate authority: issues the certificates that machines and the control plane show to TLS clients.
 *
 * Its key is one of the control plane's secrets, so that control planes on one database share one authority. People
 * make their systems trust its certificate; during a rotation, both certificates. It seals the keys of machines: a
 * copy of the database does not reveal them.
 *
 * The package that writes certificates is loaded with the first one: it is half of what a command would load.
 */

import { Buffer } from "node:buffer";
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { isIP } from "node:net";
import type { Clock } from "../../../base/clock.ts";
import type { Sql, Store } from "../store.ts";
import { assert } from "../../../base/error.ts";

export interface Certificate {
  /** The certificate, then the authority's (PEM). */
  readonly certificate: string;
  readonly privateKey: string;
  /** When to request a new one. */
  readonly renewMs: number;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const DAY_MS = 24 * 3600 * 1000;
const AUTHORITY_DAYS = 3650;
/**
 * The clock of a computer that says an earlier time is wrong. A new authority is valid from then on, and ten years
 * beyond it, so that it stays valid when a clock that was wrong at its making is set.
 */
const CLOCK_MIN_MS = Date.UTC(2026, 0, 1);
export const CERTIFICATE_DAYS = 90;
const RENEW_DAYS = 60;
/** Allows for slow clocks of machines. */
const EARLIER_MS = DAY_MS;

interface Kept {
  readonly certificate: string;
  readonly privateKey: string;
}

export class Authority {
  constructor(
    /** The valid keys, the signing one first. */
    private readonly secrets: { good(name: "authority"): readonly string[] },
    private readonly store: Store,
    private readonly clock: Clock,
  ) {}

  /** PEM: the certificates that people trust, the signing one first. */
  get certificate(): string {
    return this.#all().map(({ certificate }) => certificate).join("");
  }

  #all(): readonly Kept[] {
    return this.secrets.good("authority").map((value) => JSON.parse(value));
  }

  /** A certificate for these names and addresses, valid for 90 days. */
  async issue(names: readonly string[]): Promise<Certificate> {
    const x509 = await import("@peculiar/x509");
    const nowMs = this.clock.nowMs();
    const { certificate, privateKey } = this.#present();
    const bytes = Buffer.from(privateKey.replace(/-----.*-----|\s/g, ""), "base64");
    const signingKey = await crypto.subtle.importKey("pkcs8", bytes, ALGORITHM, false, ["sign"]);
    const keys = await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
    const issued = await x509.X509CertificateGenerator.create({
      subject: [{ CN: names.slice(0, 1).map((name) => name.slice(0, 64)) }],
      issuer: new x509.X509Certificate(certificate).subject,
      notBefore: new Date(nowMs - EARLIER_MS),
      notAfter: new Date(nowMs + CERTIFICATE_DAYS * DAY_MS),
      publicKey: keys.publicKey,
      signingKey,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([
          x509.ExtendedKeyUsage.serverAuth,
          x509.ExtendedKeyUsage.clientAuth,
        ]),
        new x509.SubjectAlternativeNameExtension(
          names.map((value) => ({ type: isIP(value) ? "ip" as const : "dns" as const, value })),
        ),
      ],
    });
    return {
      certificate: `${issued.toString("pem")}\n${certificate}`,
      privateKey: await exportPem(keys.privateKey),
      renewMs: nowMs + RENEW_DAYS * DAY_MS,
    };
  }

  /** The authority that signs. */
  #present(): Kept {
    const [present] = this.#all();
    assert(present, "there is no certificate authority");
    return present;
  }

  /** Whether the current authority has signed this certificate, it is valid already, and it is not due for renewal. */
  isCurrent({ certificate, renewMs }: Certificate): boolean {
    const nowMs = this.clock.nowMs();
    const isTimely = nowMs < renewMs && renewMs <= latestRenewalMs(nowMs);
    return isTimely && certificate.endsWith(this.#present().certificate);
  }

  /** The certificate of a part: the same one until it is due for renewal, or the part has other names. */
  async ofPart(partId: string, names: readonly string[]): Promise<Certificate> {
    const find = `SELECT certificate, sealed_key AS "sealedKey", renew_ms AS "renewMs" FROM certificates
      WHERE part_id = ? AND names = ? AND renew_ms > ? AND renew_ms <= ?`;
    const nowMs = this.clock.nowMs();
    const key = [partId, names.join(" "), nowMs, latestRenewalMs(nowMs)];
    const found = async (sql: Sql) => {
      const [kept] = await sql.query<Omit<Certificate, "privateKey"> & { sealedKey: string }>(find, ...key);
      // A certificate of a removed authority is useless.
      const signer = kept && this.#all().find((one) => kept.certificate.endsWith(one.certificate));
      const privateKey = signer && opened(kept.sealedKey, signer, partId);
      return kept && privateKey !== undefined ? { ...kept, privateKey } : undefined;
    };
    const kept = await found(this.store);
    if (kept) return kept;
    const { certificate, privateKey, renewMs } = await this.issue(names);
    const signer = this.#all().find((one) => certificate.endsWith(one.certificate))!;
    return await this.store.transaction(async (sql) => {
      const other = await found(sql);
      if (other) return other;
      await sql.query("DELETE FROM certificates WHERE part_id = ?", partId);
      await sql.query(
        "INSERT INTO certificates (part_id, names, certificate, sealed_key, renew_ms) VALUES (?, ?, ?, ?, ?)",
        partId,
        names.join(" "),
        certificate,
        sealed(privateKey, signer, partId),
        renewMs,
      );
      return { certificate, privateKey, renewMs };
    });
  }
}

/** A clock that was ahead has issued certificates with a later renewal; they are not valid yet. */
function latestRenewalMs(nowMs: number): number {
  return nowMs + RENEW_DAYS * DAY_MS + EARLIER_MS / 2;
}

/** AES-256-GCM; the key is derived from the authority's, and a part's text opens for that part alone. */
const CIPHER = "aes-256-gcm";
const [NONCE_BYTES, TAG_BYTES] = [12, 16];

function sealingKey({ privateKey }: Kept): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", privateKey, "", "svc-cloud keys of machines", 32));
}

function sealed(text: string, authority: Kept, partId: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, sealingKey(authority), nonce).setAAD(Buffer.from(partId));
  const bytes = [nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()];
  return Buffer.concat(bytes).toString("base64");
}

/** `undefined` if the text was changed, or sealed for another part. */
function opened(text: string, authority: Kept, partId: string): string | undefined {
  const bytes = Buffer.from(text, "base64");
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const cipher = createDecipheriv(CIPHER, sealingKey(authority), bytes.subarray(0, NONCE_BYTES));
  cipher.setAAD(Buffer.from(partId)).setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    const content = bytes.subarray(NONCE_BYTES, -TAG_BYTES);
    return Buffer.concat([cipher.update(content), cipher.final()]).toString("utf8");
  } catch {
    return undefined;
  }
}

/** A new authority. Each has a unique name, by which clients find the issuer of a certificate. */
export async function newAuthority(nowMs: number): Promise<Kept> {
  const x509 = await import("@peculiar/x509");
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: [{ CN: [`svc-cloud local authority ${randomBytes(4).toString("hex")}`] }],
    notBefore: new Date(Math.min(nowMs, CLOCK_MIN_MS) - EARLIER_MS),
    notAfter: new Date(Math.max(nowMs, CLOCK_MIN_MS) + AUTHORITY_DAYS * DAY_MS),
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
    ],
  });
  return { certificate: `${certificate.toString("pem")}\n`, privateKey: await exportPem(keys.privateKey) };
}

async function exportPem(key: CryptoKey): Promise<string> {
  const lines = Buffer.from(await crypto.subtle.exportKey("pkcs8", key)).toString("base64").match(
    /.{1,64}/g,
  )!;
  return ["-----BEGIN PRIVATE KEY-----", ...lines, "-----END PRIVATE KEY-----", ""].join("\n");
}
