/**
 * For the tests of the transports: services that answer in all four shapes, ports and channels that close
 * themselves, and a certificate.
 */

import {
  BasicConstraintsExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { AudioOutService } from "../../proto/gen/audio_out_pb.ts";
import { EchoService } from "../../proto/gen/echo_pb.ts";
import type { Channel } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc, type GrpcOptions } from "../../lib/wire/grpc/grpc_channel.ts";
import { openPort, type Port, type PortOptions } from "../../lib/wire/port/port.ts";
import { type Gate, type Interceptor, service, ServiceTable } from "../../lib/wire/rpc/service.ts";

const clock = new SystemClock();

/** A handler's observations, for tests. */
export interface Seen {
  canceled: Promise<unknown>;
  calls: number;
}

/**
 * `echo` answers its message; `fail:<code>:<text>:<retryMs>` fails, `hang` waits for the end of the call, `big:<n>` is n
 * bytes.
 * The audio service counts the bytes of a stream in the trailer `bytes`. Request metadata whose key begins with `x-` comes back in the header and, as `t-…`, in the trailer.
 */
export function echoTable(interceptors: (Interceptor | Gate)[] = []): { table: ServiceTable; seen: Seen } {
  const canceled = Promise.withResolvers<unknown>();
  const seen: Seen = { canceled: canceled.promise, calls: 0 };
  const table = new ServiceTable(clock, interceptors);
  table.add(service(EchoService, {
    async echo({ message }, ctx) {
      seen.calls++;
      for (const [key, value] of ctx.requestHeader) {
        if (!key.startsWith("x-")) continue;
        ctx.responseHeader.append(key, value);
        ctx.responseTrailer.append(`t-${key}`, value);
      }
      const [word, argument, text, retry] = message.split(":");
      const retryMs = retry === undefined ? undefined : Number(retry);
      if (word === "fail") throw new SvcError(argument as "unknown", text, { retryMs });
      if (word === "big") return { message: "x".repeat(Number(argument)) };
      if (word === "hang") {
        await new Promise((_, reject) => {
          ctx.signal.addEventListener("abort", () => {
            canceled.resolve(ctx.signal.reason);
            reject(ctx.signal.reason);
          });
        });
      }
      return { message };
    },
    async *echoMultiple({ message }, ctx) {
      try {
        for (const letter of message) yield { message: letter };
        if (message === "endless") { for (;;) yield { message: "x".repeat(10_000) }; }
        if (message === "broken") throw new SvcError("data_loss", "it broke");
        if (message === "hang") {
          await new Promise((_, reject) =>
            ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason))
          );
        }
      } finally {
        canceled.resolve(ctx.signal.reason);
      }
    },
    async *echoBiDi(requests) {
      for await (const { message } of requests) yield { message };
    },
  }));
  table.add(service(AudioOutService, {
    async playStream(requests, ctx) {
      let bytes = 0;
      for await (const { payload } of requests) {
        if (payload.case === "audioChunk") bytes += payload.value.audioData.length;
      }
      ctx.responseTrailer.set("bytes", String(bytes));
      return {};
    },
  }));
  return { table, seen };
}

/** Runs `test` with a port, and closes the port after it. */
export async function withPort(
  options: Partial<PortOptions>,
  test: (port: Port, seen: Seen) => Promise<void>,
): Promise<void> {
  const { table, seen } = echoTable();
  const port = await openPort({ table, clock, bind: { host: "127.0.0.1", port: 0 }, ...options });
  try {
    await test(port, seen);
  } finally {
    await port.close(0);
  }
}

/** Runs `test` with a gRPC channel to a port. */
export async function withChannel(
  options: Partial<PortOptions & { client: Partial<GrpcOptions> }>,
  test: (channel: Channel, seen: Seen, port: Port) => Promise<void>,
): Promise<void> {
  await withPort(options, async (port, seen) => {
    const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock, ...options.client });
    try {
      await test(channel, seen, port);
    } finally {
      channel.close();
    }
  });
}

/** A certificate for `localhost` and 127.0.0.1 that has signed itself. */
export async function selfSigned(address = "127.0.0.1"): Promise<{ certPem: string; keyPem: string }> {
  const signingAlgorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await crypto.subtle.generateKey(signingAlgorithm, true, ["sign", "verify"]);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: "CN=localhost",
    keys,
    signingAlgorithm,
    extensions: [
      new BasicConstraintsExtension(false),
      new SubjectAlternativeNameExtension([{ type: "dns", value: "localhost" }, {
        type: "ip",
        value: address,
      }]),
    ],
  });
  const key = await crypto.subtle.exportKey("pkcs8", keys.privateKey);
  return { certPem: certificate.toString("pem"), keyPem: PemConverter.encode(key, "PRIVATE KEY") };
}

/** Everything that `values` yields. */
export async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
}

export async function* each<T>(...values: T[]): AsyncGenerator<T> {
  yield* values;
}
