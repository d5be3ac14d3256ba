/** Calls of any method with an empty message, for tests of who gets in. */

import { CODES, SvcError } from "../../lib/base/error.ts";
import type { Channel } from "../../lib/wire/rpc/channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import type { DescMethod } from "../../lib/wire/rpc/proto.ts";
import { pathOf } from "../../lib/wire/rpc/service.ts";

/** Calls a method with an empty message and a token; resolves to its gRPC status. */
export type Transport = (method: DescMethod, token: string | undefined) => Promise<number>;

/** Calls over a channel. */
export function overChannel(channel: Pick<Channel, "call">): Transport {
  return (method, token) =>
    statusOf(channel, method, {
      header: token === undefined ? new Metadata() : Metadata.from([["authorization", `Bearer ${token}`]]),
    });
}

/** Calls over gRPC-web by HTTP/1.1 to the port at `url`. */
export function overWeb(url: string): Transport {
  return async (method, token) => {
    const headers = new Headers({ "content-type": "application/grpc-web+proto" });
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    const answer = await fetch(`${url}${pathOf(method)}`, {
      method: "POST",
      headers,
      body: new Uint8Array(5),
    });
    const status = /grpc-status: (\d+)/.exec(await answer.text())?.[1];
    return Number(status);
  };
}

/** The gRPC status of a call with an empty message. */
export async function statusOf(
  channel: Pick<Channel, "call">,
  method: DescMethod,
  options: { readonly header?: Metadata },
): Promise<number> {
  const empty = async function* () {
    yield new Uint8Array();
  };
  try {
    for await (const _ of channel.call(method, empty(), options));
    return 0;
  } catch (error) {
    return CODES[SvcError.from(error).code];
  }
}

/** The claims of a token, in a token that nobody has signed. */
export function unsigned(token: string): string {
  const none = btoa(JSON.stringify({ alg: "none", typ: "JWT" })).replace(/=+$/, "");
  return `${none}.${token.split(".")[1]}.`;
}
