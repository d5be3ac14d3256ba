/**
 * Serves gRPC on a link-local IPv6 address and calls itself there; prints the results as JSON. Arguments: the address
 * and its interface.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { chainOf } from "../../lib/base/error.ts";
import { answersTcp } from "../../lib/wire/dial/reach.ts";
import { connectGrpc, type GrpcOptions } from "../../lib/wire/grpc/grpc_channel.ts";
import { openPort } from "../../lib/wire/port/port.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { EchoService } from "../../proto/gen/echo_pb.ts";
import { all, each, echoTable, selfSigned } from "../support/echo.ts";

const BIG = 3_000_000;
const [address = "", zone = ""] = Deno.args;
const clock = new SystemClock();
const { table } = echoTable();
const tls = await selfSigned(address);
const plain = await openPort({ table, clock, bind: { host: "::", port: 0 } });
const secure = await openPort({ table, clock, tls, bind: { host: "::", port: 0 } });

async function ask(host: string, port: number, options: Partial<GrpcOptions> = {}): Promise<string> {
  const channel = connectGrpc(`${host}:${port}`, { clock, proxied: true, ...options });
  const echo = client(EchoService, channel);
  try {
    const big = await echo.echo({ message: `big:${BIG}` });
    const back = await echo.echo({ message: big.message });
    const talk = await all(echo.echoBiDi(each({ message: "a" }, { message: "b" })));
    return `${back.message.length} ${talk.map(({ message }) => message).join("")}`;
  } catch (error) {
    return chainOf(error);
  } finally {
    channel.close();
  }
}

const closed = await openPort({ table, clock, bind: { host: "::", port: 0 } });
await closed.close(0);
const reaches = (host: string, port: number) =>
  answersTcp({ host, port }, clock, 2_000, new AbortController().signal);
const results = {
  plain: await ask(`[${address}%${zone}]`, plain.port),
  asInUrls: await ask(`[${address}%25${zone}]`, plain.port),
  secure: await ask(`[${address}%${zone}]`, secure.port, { tls: { ca: tls.certPem } }),
  stranger: await ask(`[${address}%${zone}]`, secure.port, { tls: {} }),
  refused: await ask(`[${address}%${zone}]`, closed.port),
  reached: [
    await reaches(`${address}%${zone}`, plain.port),
    await reaches(`${address}%${zone}`, closed.port),
    await reaches(`fe80::dead%${zone}`, plain.port),
    await reaches(`${address}%nowhere`, plain.port),
  ],
};
await plain.close(0);
await secure.close(0);
console.log(JSON.stringify(results));
