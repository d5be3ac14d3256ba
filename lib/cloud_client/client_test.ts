import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SystemClock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import { Secret } from "../base/secret.ts";
import { FakeControlPlane, KEY, KEY_ID, PART_ID } from "../../tests/support/control_plane.ts";
import { CloudClient, type CloudClientOptions, isNeighbour } from "./client.ts";

const clock = new SystemClock();

function options(address: string, changes: Partial<CloudClientOptions> = {}): CloudClientOptions {
  const credentials = { type: "api-key", entity: KEY_ID, payload: new Secret(KEY) };
  return {
    address,
    partId: PART_ID,
    credentials,
    allowInsecureCredentials: true,
    agent: {},
    clock,
    ...changes,
  };
}

async function withClient(
  test: (client: CloudClient, app: FakeControlPlane) => Promise<void>,
  changes: Partial<CloudClientOptions> = {},
): Promise<void> {
  const app = new FakeControlPlane();
  await app.open();
  const client = new CloudClient(options(app.url, changes));
  try {
    await test(client, app);
  } finally {
    client.close();
    await app.close();
  }
}

Deno.test("CloudClient: sends every request with its own part id", () =>
  withClient(async (client, app) => {
    app.config = { revision: "r1", debug: true };
    app.restartCheckMs = 1_500;
    const { revision, debug, cloud } = await client.config();
    assertEquals([revision, debug, cloud?.id], ["r1", true, PART_ID]);
    assertEquals(await client.certificate(), undefined);
    app.certificate = { tlsCertificate: "cert", tlsPrivateKey: "key" };
    assertEquals(await client.certificate(), { certPem: "cert", keyPem: "key" });
    assertEquals(await client.needsRestart(), { mustRestart: false, intervalMs: 1_500 });
    await client.log([{ message: "hello", level: "info" }]);
    assertEquals(app.logs, ["hello"]);
    assertEquals(
      app.calls,
      ["Config", "Certificate", "Certificate", "NeedsRestart", "Log"].map((one) => `${one} ${PART_ID}`),
    );
  }));

Deno.test("CloudClient: concurrent calls share a token, and an invalid token is exchanged", () =>
  withClient(async (client, app) => {
    await Promise.all([client.config(), client.config(), client.config()]);
    await app.close();
    const away = await assertRejects(() => client.config(), SvcError);
    assertEquals(away.code, "unavailable");
    await app.open();
    await client.config();
    assertEquals(app.calls.length, 4);
  }));

Deno.test("CloudClient: wrong credentials fail every call with unauthenticated", () =>
  withClient(async (client, app) => {
    for (let n = 0; n < 2; n++) {
      const error = await assertRejects(
        () => client.config(),
        SvcError,
        `invalid credentials: the api-key ${KEY_ID} is wrong`,
      );
      assertEquals(error.code, "unauthenticated");
    }
    assertEquals(app.calls, []);
  }, { credentials: { type: "api-key", entity: KEY_ID, payload: new Secret("wrong") } }));

Deno.test("CloudClient: an aborted call rejects and later calls succeed", () =>
  withClient(async (client) => {
    const aborted = AbortSignal.abort(new SvcError("canceled", "the program ends"));
    await assertRejects(() => client.config({ signal: aborted }), SvcError, "the program ends");
    await client.config();
  }));

Deno.test("credentials do not travel in the clear unless that is allowed", () => {
  const plain = () => new CloudClient(options("http://localhost:1", { allowInsecureCredentials: false }));
  const error = assertThrows(plain, SvcError, "credentials do not travel without TLS to http://localhost:1");
  assertEquals(error.code, "failed_precondition");
  for (
    const address of [
      "https://app.example.com:443",
      "app.example.com",
      "https://app.example.com/",
      "https://[::1]:8090",
    ]
  ) {
    new CloudClient(options(address, { allowInsecureCredentials: false })).close();
  }
  const bad = [
    "not a host",
    "https://a pp",
    "https://app:65536",
    "https://app:",
    "::1",
    "https://[::1",
    "a@b",
    "a?b",
  ];
  for (const address of ["ftp://app", "", "https://app/path", ...bad]) {
    assertThrows(() => new CloudClient(options(address)), SvcError, "is no address of a control plane");
  }
});

Deno.test("isNeighbour accepts names below the machine's own domain only", () => {
  const own = "arm-main.lab.cloud.example";
  for (
    const name of [
      "cart-main.yard.cloud.example",
      "Cart-Main.Yard.Cloud.Example",
      "x.cart.yard.cloud.example",
    ]
  ) {
    assertEquals(isNeighbour(name, own), true, name);
  }
  for (const name of ["cart-main.yard.evilcloud.example", "cart-main.yard.example", "cart-main", ""]) {
    assertEquals(isNeighbour(name, own), false, name);
  }
  assertEquals([isNeighbour("cart.yard.cloud.example"), isNeighbour("cart", "arm")], [false, false]);
});
