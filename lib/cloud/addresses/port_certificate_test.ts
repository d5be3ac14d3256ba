import { sqliteIn } from "../../../cli/cloud/sqlite.ts";
import { DenoHost } from "../../base/host_deno.ts";
import { X509Certificate } from "node:crypto";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { selfSigned } from "../../../tests/support/echo.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import { until } from "../../../tests/support/until.ts";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import type { TlsFiles } from "../../wire/port/tls.ts";
import { PortCertificate } from "./port_certificate.ts";
import { Authority, newAuthority } from "../store/secrets/authority.ts";
import { openStore } from "../store/open_store.ts";

const DAY_MS = 24 * 3600 * 1000;

function bench() {
  const clock = new FakeClock();
  const host = new FakeFiles();
  const records: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(records)]).logger("cloud");
  const renewed: TlsFiles[] = [];
  const renew = (tls: TlsFiles) => {
    if (tls.keyPem.includes("nonsense")) throw new SvcError("invalid_argument", "key is no key");
    renewed.push(tls);
  };
  return { clock, host, records, logger, renewed, port: { renew } };
}

Deno.test("PortCertificate: reloads replaced files and logs an unusable pair once", async () => {
  const { clock, host, records, logger, renewed, port } = bench();
  const put = (certPem: string, keyPem: string) => {
    host.put("cert", certPem);
    host.put("key", keyPem);
  };
  const [one, two] = [await selfSigned(), await selfSigned()];
  put(one.certPem, one.keyPem);
  const from = { certFile: "cert", keyFile: "key" };
  const certificate = new PortCertificate({ from, host, clock, logger });
  assertEquals((await certificate.read()).certPem, one.certPem);
  const end = certificate.keep(port);
  await clock.advance(120_000);
  assertEquals(renewed, []);

  put(two.certPem, "nonsense");
  await clock.advance(180_000);
  const logged = records.map(({ message }) => message);
  assertEquals(logged, ["the certificate is the same as before: key is no key"]);
  put(two.certPem, two.keyPem);
  await clock.advance(1_000);
  assertEquals(renewed.map(({ certPem }) => certPem), [two.certPem]);
  host.removeFile("cert");
  await clock.advance(1_000);
  assertStringIncludes(records.at(-1)!.message, 'cannot read "cert"');
  await end();
  assertEquals(clock.pending, 0);
});

Deno.test("PortCertificate: renews in time, for new names, and when another authority signs", async () => {
  const { clock, host, logger, renewed, port } = bench();
  const first = await newAuthority(clock.nowMs());
  let good = [first];
  const secrets = { good: () => good.map((one) => JSON.stringify(one)) };
  const file = await Deno.makeTempFile();
  const store = await openStore({ sqlite: sqliteIn(file, new DenoHost()) }, new SystemClock());
  const authority = new Authority(secrets, store, clock);
  let names = ["cloud"];
  const from = { authority, names: () => Promise.resolve(names) };
  const certificate = new PortCertificate({ from, host, clock, logger });
  const shown = await certificate.read();
  assert(shown.certPem.endsWith(first.certificate));
  const end = certificate.keep(port);
  await clock.advance(59 * DAY_MS);
  assertEquals(renewed, []);
  await clock.advance(1 * DAY_MS + 3_600_000);
  await until(() => renewed.length === 1);
  const other = await newAuthority(clock.nowMs());
  good = [other, first];
  await clock.advance(3_600_000);
  await until(() => renewed.length === 2);
  assert(renewed[1].certPem.endsWith(other.certificate));
  const validFromMs = (tls: TlsFiles) => Date.parse(new X509Certificate(tls.certPem).validFrom);
  clock.setOn(70 * DAY_MS);
  await clock.advance(60_000);
  await until(() => renewed.length === 3);
  assert(validFromMs(renewed.pop()!) > clock.nowMs() - 2 * DAY_MS);
  // The clock was ahead: the certificate of then is not valid yet.
  clock.setOn(-70 * DAY_MS);
  await clock.advance(60_000);
  await until(() => renewed.length === 3);
  assert(validFromMs(renewed.pop()!) < clock.nowMs());
  names = ["cloud", "*.place.svc.internal"];
  await clock.advance(300_000);
  await until(() => renewed.length === 3);
  assertStringIncludes(new X509Certificate(renewed[2].certPem).subjectAltName!, "DNS:*.place.svc.internal");
  await end();
  await store.close();
  await Deno.remove(file);
});
