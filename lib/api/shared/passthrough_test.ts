import { assertEquals, assertRejects } from "@std/assert";
import { AudioOutService } from "../../../proto/gen/audio_out_pb.ts";
import { ButtonService } from "../../../proto/gen/button_pb.ts";
import { GetLocationResponseSchema, NavigationService } from "../../../proto/gen/navigation_pb.ts";
import { PoseTrackerService } from "../../../proto/gen/pose_tracker_pb.ts";
import { ShellService } from "../../../proto/gen/shell_pb.ts";
import { VideoService } from "../../../proto/gen/video_pb.ts";
import { WorldStateStoreService } from "../../../proto/gen/world_state_store_pb.ts";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { type Channel, client } from "../../wire/rpc/channel.ts";
import { connectGrpc } from "../../wire/grpc/grpc_channel.ts";
import { Metadata } from "../../wire/rpc/metadata.ts";
import { create } from "../../wire/rpc/proto.ts";
import { openPort } from "../../wire/port/port.ts";
import { type Service, service, ServiceTable } from "../../wire/rpc/service.ts";
import { ResourceName } from "../../resource/name.ts";
import { type ForwardingResource, passthrough } from "./passthrough.ts";
import { PUBLISHED } from "../published.ts";

const clock = new SystemClock();

/** A channel to a port that serves these services. */
async function serving(services: readonly Service[]): Promise<{ channel: Channel; close(): Promise<void> }> {
  const table = new ServiceTable(clock);
  for (const one of services) table.add(one);
  const port = await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, clock });
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  return {
    channel,
    close: async () => {
      channel.close();
      await port.close(0);
    },
  };
}

/** Runs `check` with a channel to a machine whose resource "near" stands for the services' resource "far". */
async function forwarded(services: readonly Service[], check: (channel: Channel) => Promise<void>) {
  const far = await serving(services);
  const near = await serving(services.map(({ desc }) => {
    const api = passthrough("rdk:service:any", desc);
    const resource = api.client(ResourceName.of(api.name, "there:r_far", "far"), far.channel);
    return api.serve((name) => {
      if (name === "near") return resource;
      throw new SvcError("unknown", `no node found with api ${api.name} and name ${name}`);
    });
  }));
  try {
    await check(near.channel);
  } finally {
    await near.close();
    await far.close();
  }
}

async function* stream<T>(values: readonly T[]): AsyncGenerator<T> {
  yield* values;
}

Deno.test("passthrough: forwards a unary call under the far name, with the caller's own metadata", async () => {
  const seen: unknown[] = [];
  const button = service(ButtonService, {
    push: (request, ctx) => {
      seen.push(
        request.name,
        request.extra,
        ctx.requestHeader.get("viam-metadata-who"),
        ctx.requestHeader.get("other"),
      );
      return {};
    },
    doCommand: (request) => ({ result: { of: request.name, ...request.command } }),
  });
  await forwarded([button], async (channel) => {
    const near = client(ButtonService, channel);
    const header = Metadata.from([["viam-metadata-who", "me"], ["other", "x"]]);
    await near.push({ name: "near", extra: { hard: true } }, { header });
    assertEquals(seen, ["far", { hard: true }, "me", undefined]);
    assertEquals((await near.doCommand({ name: "near", command: { a: 1 } })).result, { of: "far", a: 1 });
    await assertRejects(() => near.push({ name: "elsewhere" }), SvcError, "name elsewhere");
  });
});

Deno.test("passthrough: returns errors unchanged", async () => {
  const button = service(ButtonService, {
    push: () => {
      throw new SvcError("failed_precondition", "it is stuck");
    },
  });
  await forwarded([button], async (channel) => {
    const near = client(ButtonService, channel);
    const error = await assertRejects(() => near.push({ name: "near" }), SvcError, "it is stuck");
    assertEquals(error.code, "failed_precondition");
    assertEquals(
      (await assertRejects(() => near.getStatus({ name: "near" }), SvcError)).code,
      "unimplemented",
    );
  });
});

Deno.test("passthrough: fields that a message does not declare pass unchanged", async () => {
  const stored = [{ no: 1, wireType: 2, data: new TextEncoder().encode("\x06\x0a\x04dock") }];
  const navigation = service(NavigationService, {
    getLocation: () => Object.assign(create(GetLocationResponseSchema), { $unknown: stored }),
  });
  await forwarded([navigation], async (channel) => {
    const answer = await client(NavigationService, channel).getLocation({
      name: "near",
      locationName: "dock",
    });
    assertEquals(answer.$unknown, stored);
  });
});

Deno.test("passthrough: forwards a server stream", async () => {
  const video = service(VideoService, {
    getVideo: async function* ({ name }) {
      for (const requestId of ["1", "2", "3"]) yield { requestId, videoContainer: name };
    },
  });
  await forwarded([video], async (channel) => {
    const parts = await Array.fromAsync(client(VideoService, channel).getVideo({ name: "near" }));
    assertEquals(parts.map(({ requestId, videoContainer }) => requestId + videoContainer), [
      "1far",
      "2far",
      "3far",
    ]);
    await assertRejects(
      () => Array.fromAsync(client(VideoService, channel).getVideo({ name: "elsewhere" })),
      SvcError,
      "name elsewhere",
    );
  });
});

Deno.test("passthrough: frames of a remote have their names of this machine in answers and streams", async () => {
  const tracker = service(PoseTrackerService, {
    getPoses: () => ({ bodyPoses: { tag: { referenceFrame: "cam" } } }),
  });
  const store = service(WorldStateStoreService, {
    streamTransformChanges: async function* () {
      for (const parent of ["world", "cam"]) {
        yield { transform: { referenceFrame: "box", poseInObserverFrame: { referenceFrame: parent } } };
      }
    },
  });
  await forwarded([tracker, store], async (channel) => {
    const { bodyPoses } = await client(PoseTrackerService, channel).getPoses({ name: "near" });
    assertEquals(bodyPoses.tag.referenceFrame, "r_cam");
    const changes = client(WorldStateStoreService, channel).streamTransformChanges({ name: "near" });
    const frames = (await Array.fromAsync(changes)).map(({ transform }) => [
      transform?.referenceFrame,
      transform?.poseInObserverFrame?.referenceFrame,
    ]);
    assertEquals(frames, [["r_box", "there_world"], ["r_box", "r_cam"]]);
  });
});

Deno.test("passthrough: forwards a client stream that names its resource in the first message", async () => {
  const seen: unknown[] = [];
  const audio = service(AudioOutService, {
    playStream: async (requests) => {
      for await (const { payload } of requests) {
        seen.push(payload.case === "init" ? payload.value.name : payload.value?.audioData.length);
      }
      return {};
    },
  });
  await forwarded([audio], async (channel) => {
    const near = client(AudioOutService, channel);
    const chunk = (length: number) => ({
      payload: { case: "audioChunk" as const, value: { audioData: new Uint8Array(length) } },
    });
    const init = (name: string) => ({ payload: { case: "init" as const, value: { name } } });
    await near.playStream(stream([init("near"), chunk(3), chunk(5)]));
    assertEquals(seen, ["far", 3, 5]);
    await assertRejects(() => near.playStream(stream([init("elsewhere")])), SvcError, "name elsewhere");
    await assertRejects(() => near.playStream(stream([chunk(1)])), SvcError, "names no resource");
    await assertRejects(() => near.playStream(stream([])), SvcError, "got no request");
  });
});

Deno.test("passthrough: forwards a bidi stream with an answer before the next request", async () => {
  const shell = service(ShellService, {
    shell: async function* (requests) {
      for await (const { name, dataIn } of requests) yield { dataOut: `${name}: ${dataIn}` };
    },
  });
  await forwarded([shell], async (channel) => {
    const { promise: answered, resolve } = Promise.withResolvers<void>();
    const typed = async function* () {
      yield { name: "near", dataIn: "ls" };
      await answered;
      yield { name: "near", dataIn: "exit" };
    };
    const out: string[] = [];
    for await (const { dataOut } of client(ShellService, channel).shell(typed())) {
      out.push(dataOut);
      resolve();
    }
    assertEquals(out, ["far: ls", "far: exit"]);
  });
});

Deno.test("passthrough: a caller that hangs up ends the far call", async () => {
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  const video = service(VideoService, {
    getVideo: async function* (_, { signal }) {
      signal.addEventListener("abort", () => resolve());
      yield { requestId: "1" };
      await ended;
    },
  });
  await forwarded([video], async (channel) => {
    for await (const _ of client(VideoService, channel).getVideo({ name: "near" })) break;
    await ended;
  });
});

Deno.test("published APIs without models: each method of a missing resource returns UNKNOWN with its name", async () => {
  const missing = (api: string) => (name: string): ForwardingResource => {
    throw new SvcError("unknown", `no node found with api ${api} and name ${name}`);
  };
  const { channel, close } = await serving(PUBLISHED.map((api) => api.serve(missing(api.name))));
  try {
    for (const { desc, name } of PUBLISHED) {
      const methods = client(desc, channel) as Record<string, (request: unknown) => unknown>;
      for (const method of desc.methods) {
        if (method.methodKind !== "unary" && method.methodKind !== "server_streaming") continue;
        const answer = methods[method.localName]({ name: "nowhere" });
        const call = () =>
          method.methodKind === "unary"
            ? answer as Promise<unknown>
            : Array.fromAsync(answer as AsyncIterable<unknown>);
        const error = await assertRejects(call, SvcError, `no node found with api ${name} and name nowhere`);
        assertEquals(error.code, "unknown");
      }
    }
  } finally {
    await close();
  }
});
