/** A real OpenID Connect provider on loopback, and a browser that signs in there by its own forms. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Provider } from "oidc-provider";

export const CLIENT_ID = "svc-cloud";
export const CLIENT_SECRET = "a secret of the client";
/** Steps of a sign-in: the request, two forms, and what leads from one to the next. */
const STEPS_MAX = 12;

export interface ServedProvider {
  readonly issuer: string;
  close(): Promise<void>;
}

/** Serves a provider that knows everybody: the name with which one signs in is the subject and the address. */
export async function serveProvider(redirectUri: string): Promise<ServedProvider> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: CLIENT_ID, client_secret: CLIENT_SECRET, redirect_uris: [redirectUri] }],
    claims: { openid: ["sub"], email: ["email", "email_verified"] },
    cookies: { keys: ["of a test"] },
    findAccount: (_: unknown, id: string) => ({
      accountId: id,
      claims: () => ({ sub: id, email: id, email_verified: !id.startsWith("unverified") }),
    }),
  });
  server.on("request", provider.callback());
  return {
    issuer,
    close: () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      return closed;
    },
  };
}

/** Follows a sign-in as `login`; resolves with the query with which the provider sends the browser back. */
export async function signInAtProvider(url: string, login: string, redirectUri: string): Promise<string> {
  const cookies = new Map<string, string>();
  const go = async (to: URL, init: RequestInit = {}) => {
    const cookie = [...cookies].map((pair) => pair.join("=")).join("; ");
    const answer = await fetch(to, { ...init, redirect: "manual", headers: { cookie } });
    for (const one of answer.headers.getSetCookie()) {
      const [name, value] = one.split(";", 1)[0].split("=");
      cookies.set(name, value);
    }
    return { location: answer.headers.get("location"), text: await answer.text() };
  };
  let at = new URL(url);
  let answer = await go(at);
  for (let step = 0; step < STEPS_MAX; step++) {
    const { location, text } = answer;
    if (location !== null) {
      at = new URL(location, at);
      if (at.href.startsWith(redirectUri)) return at.search.slice(1);
      answer = await go(at);
      continue;
    }
    const action = /action="([^"]+)"/.exec(text)?.[1];
    if (!action) throw new Error(`the provider shows no form: ${text.slice(0, 2_000)}`);
    const prompt = /name="prompt" value="(\w+)"/.exec(text)?.[1] ?? "";
    answer = await go(new URL(action, at), {
      method: "POST",
      body: new URLSearchParams({ prompt, login, password: "any" }),
    });
  }
  throw new Error(`the provider did not send the browser back from ${at.href}`);
}
