import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { SignalingSource } from "./signaling_source.ts";

type Client = ConstructorParameters<typeof SignalingSource>[0];

Deno.test("SignalingSource: uses the given address, or the control plane without an address", async () => {
  const seen: string[] = [];
  const clientAt = (address: string): Client => ({
    address,
    at: (other) => {
      if (other.startsWith("http:")) throw new SvcError("failed_precondition", "not in the clear");
      seen.push(`connect ${other}`);
      return clientAt(other) as ReturnType<Client["at"]>;
    },
    signaling: () => {
      seen.push(`call ${address}`);
      return Promise.resolve(undefined as never);
    },
    close: () => void seen.push(`close ${address}`),
  });
  let named: string | undefined;
  const source = new SignalingSource(clientAt("https://plane.example"), () => named);
  const { signal } = new AbortController();
  const call = async (address?: string) => {
    named = address;
    await source.signaling(signal, () => Promise.resolve());
    assertEquals(source.address, address ?? "https://plane.example");
    return seen.splice(0);
  };
  assertEquals(await call(), ["call https://plane.example"]);
  assertEquals(await call("https://plane.example:443"), ["call https://plane.example"]);
  assertEquals(await call("https://other:1"), ["connect https://other:1", "call https://other:1"]);
  assertEquals(await call("https://other:1"), ["call https://other:1"]);
  assertEquals(await call("https://other:2"), [
    "close https://other:1",
    "connect https://other:2",
    "call https://other:2",
  ]);
  await assertRejects(() => call("http://other:2"), SvcError, "not in the clear");
  assertEquals(seen.splice(0), ["close https://other:2"]);
  await assertRejects(() => call("ftp://other"), SvcError, "wanted https://host:port");
  assertEquals(await call("https://other:3"), ["connect https://other:3", "call https://other:3"]);
  assertEquals(await call(), ["close https://other:3", "call https://plane.example"]);
  source.close();
  assertEquals(seen, []);
});
