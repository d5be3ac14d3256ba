/** A provider on loopback that answers as a test says, and signs with a key of its own. */

import { Buffer } from "node:buffer";
import { createSign, generateKeyPairSync, type KeyObject } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

type Answering = (response: ServerResponse) => void;

export interface HostileProvider {
  readonly issuer: string;
  /** What the next requests to a path get. */
  readonly answers: Map<string, Answering>;
  /** The key that its description names. */
  readonly key: KeyObject;
  close(): Promise<void>;
}

export const asJson = (value: unknown): Answering => (response) => {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
};

export async function serveHostileProvider(): Promise<HostileProvider> {
  const { publicKey, privateKey: key } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const answers = new Map<string, Answering>();
  const server = createServer((request, response) => {
    request.resume();
    const answer = answers.get(new URL(request.url!, "http://x").pathname);
    if (answer) answer(response);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  answers.set("/.well-known/openid-configuration", asJson(description(issuer)));
  answers.set(
    "/keys",
    asJson({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "1", alg: "RS256" }] }),
  );
  return {
    ...{ issuer, answers, key },
    close: () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      return closed;
    },
  };
}

export function description(issuer: string) {
  return {
    issuer,
    authorization_endpoint: `${issuer}/auth`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/keys`,
    authorization_response_iss_parameter_supported: true,
    id_token_signing_alg_values_supported: ["RS256", "none"],
  };
}

/** A token with these claims; without a key it has no signature. */
export function idToken(claims: object, key: KeyObject | undefined, alg = key ? "RS256" : "none"): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const signed = `${part({ alg, kid: "1" })}.${part(claims)}`;
  const signature = key ? createSign("sha256").update(signed).sign(key).toString("base64url") : "";
  return `${signed}.${signature}`;
}
