/**
 * A person's session at a control plane, begun by this program as a browser would begin it: it is listed among the
 * person's sessions, and ends where those end.
 */

import { SvcError } from "../../../lib/base/error.ts";
import { bytesUpTo } from "../../../lib/base/files/byte_reader.ts";
import { messageOf } from "../../../lib/base/error.ts";
import { Secret } from "../../../lib/base/secret.ts";
import { parseCloudAddress } from "../../../lib/cloud_client/client.ts";
import { VERSION } from "../../version.ts";

export interface SessionAddress {
  readonly address: string;
  readonly ca?: string;
}

/** The cookie over TLS, and without. */
const COOKIES = ["__Host-svc-session", "svc-session"];
const ANSWER_BYTES_MAX = 64 * 1024;
const TIMEOUT_MS = 30_000;

/** Signs a person in; returns the secret of the session. */
export async function signIn(place: SessionAddress, email: string, password: Secret): Promise<Secret> {
  const { cookies } = await post(place, "sign-in", { email, password: password.reveal(), stays: true });
  const pairs = cookies.flatMap((one) => one.split(";", 1));
  const found = COOKIES.flatMap((name) =>
    pairs.filter((one) => one.startsWith(`${name}=`)).map((one) => one.slice(name.length + 1))
  ).find((value) => value !== "");
  if (found) return new Secret(found);
  throw new SvcError("unavailable", `${place.address} answered without a session`);
}

/** A token for calls. */
export async function fetchToken(place: SessionAddress, session: Secret): Promise<string> {
  const { value } = await post(place, "token", {}, session);
  if (typeof value.token === "string") return value.token;
  throw new SvcError("unavailable", `${place.address} answered without a token`);
}

export async function signOut(place: SessionAddress, session: Secret): Promise<void> {
  await post(place, "sign-out", {}, session);
}

async function post(
  { address, ca }: SessionAddress,
  page: string,
  body: Record<string, unknown>,
  session?: Secret,
): Promise<{ readonly value: Record<string, unknown>; readonly cookies: readonly string[] }> {
  const { target, plain } = parseCloudAddress(address);
  const url = `${plain ? "http" : "https"}://${target}/account/${page}`;
  using http = ca === undefined ? undefined : Deno.createHttpClient({ caCerts: [ca] });
  const headers = {
    "content-type": "application/json",
    "user-agent": `svc-cloud ${VERSION}`,
    ...session ? { cookie: COOKIES.map((name) => `${name}=${session.reveal()}`).join("; ") } : {},
  };
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const init = { method: "POST", headers, body: JSON.stringify(body), redirect: "manual" as const, signal };
  try {
    const response = await fetch(url, http ? { ...init, client: http } : init);
    const bytes = response.body ? await bytesUpTo(response.body, ANSWER_BYTES_MAX) : new Uint8Array();
    const value = valueOf(bytes);
    if (response.ok && value) return { value, cookies: response.headers.getSetCookie() };
    const error = typeof value?.error === "string"
      ? value.error.slice(0, 1000)
      : `HTTP status ${response.status}`;
    const isRefused = response.status === 401 || response.status === 403;
    throw new SvcError(isRefused ? "unauthenticated" : "unavailable", error);
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw new SvcError("unavailable", `cannot reach ${address}: ${messageOf(cause)}`, { cause });
  }
}

function valueOf(bytes: Uint8Array | undefined): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof value === "object" && value !== null ? value as Record<string, unknown> : undefined;
  } catch {
    return undefined;
  }
}
