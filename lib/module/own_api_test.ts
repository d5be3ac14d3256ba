import { assertEquals, assertThrows } from "@std/assert";
import { assertRefused } from "../../tests/support/refusals.ts";
import { SystemClock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import { ResourceName } from "../resource/name.ts";
import type { Resource } from "../resource/resource.ts";
import { connectGrpc } from "../wire/grpc/grpc_channel.ts";
import { openPort } from "../wire/port/port.ts";
import { ServiceTable } from "../wire/rpc/service.ts";
import { ownApi, type OwnMessage, type OwnResource } from "./own_api.ts";

type FarCounter = OwnResource & { readonly [method: string]: (request: OwnMessage) => OwnMessage };

const NAME = "acme:component:counter";
const field = (name: string, number: number, type: string) => ({
  name,
  number,
  type,
  label: "LABEL_OPTIONAL",
  jsonName: name,
});
const method = (name: string, more = {}) => ({
  name,
  inputType: ".acme.Add",
  outputType: ".acme.Sum",
  ...more,
});
const FILE = {
  name: "counter.proto",
  package: "acme",
  syntax: "proto3",
  messageType: [
    { name: "Add", field: [field("name", 1, "TYPE_STRING"), field("count", 2, "TYPE_INT32")] },
    { name: "Sum", field: [field("sum", 1, "TYPE_INT32")] },
  ],
  service: [{
    name: "CounterService",
    method: [
      method("Add"),
      method("Missing"),
      method("Follow", { serverStreaming: true }),
      method("AddAll", { clientStreaming: true }),
      method("Talk", { clientStreaming: true, serverStreaming: true }),
    ],
  }],
};

/** A counter with every kind of method but the one that is missing. */
class Counter implements Resource {
  readonly [method: string]: unknown;
  #sum = 0;

  constructor(readonly name: ResourceName) {}

  add({ count }: OwnMessage): OwnMessage {
    return { sum: this.#sum += count };
  }

  async *follow({ count }: OwnMessage) {
    for (let sum = 1; sum <= count; sum++) yield { sum };
  }

  async addAll(requests: AsyncIterable<OwnMessage>): Promise<OwnMessage> {
    for await (const { count } of requests) this.#sum += count;
    return { sum: this.#sum };
  }

  async *talk(requests: AsyncIterable<OwnMessage>) {
    for await (const { count } of requests) yield { sum: this.#sum += count };
  }

  doCommand = () => Promise.resolve({});
  getStatus = () => Promise.resolve({});
  close = () => Promise.resolve();
}

Deno.test("ownApi: a resource of its own type answers calls of all four kinds", async () => {
  const clock = new SystemClock();
  const api = ownApi({ name: NAME, service: "acme.CounterService", file: FILE });
  const counters = new Map(["one", "two"].map((name) => [name, new Counter(ResourceName.of(NAME, name))]));
  const table = new ServiceTable(clock);
  table.add(api.serve((name) => counters.get(name)!));
  const port = await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, clock });
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  const far = (name: string) => api.client(ResourceName.of(NAME, name), channel) as FarCounter;
  const [one, two] = [far("one"), far("two")];
  const sums = async (answers: AsyncIterable<OwnMessage>) =>
    (await Array.fromAsync(answers)).map(({ sum }) => sum);
  const many = async function* (...counts: number[]) {
    for (const count of counts) yield { count };
  };

  try {
    assertEquals((await one.add({ count: 2 })).sum, 2);
    assertEquals((await two.add({ count: 5 })).sum, 5);
    assertEquals(await sums(one.follow({ count: 3 })), [1, 2, 3]);
    assertEquals((await one.addAll(many(1, 2, 3))).sum, 8);
    assertEquals(await sums(two.talk(many(1, 1))), [6, 7]);
    await assertRefused("unimplemented", `${NAME}/one does not support missing`, () => one.missing({}));
    await assertRefused("invalid_argument", "got no request", () => one.addAll(many()));
  } finally {
    channel.close();
    await port.close(0);
  }
});

Deno.test("ownApi: a description without the service is refused", () => {
  const without = () => ownApi({ name: NAME, service: "acme.OtherService", file: FILE });
  const error = assertThrows(
    without,
    SvcError,
    `the description of ${NAME} has no service acme.OtherService`,
  );
  assertEquals(error.code, "invalid_argument");
});
