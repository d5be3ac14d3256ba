import { assertEquals, assertStringIncludes } from "@std/assert";
import { SystemFiles } from "./files/system_files.ts";
import { SystemClock } from "./clock.ts";
import { Logs } from "./log/log.ts";
import { until } from "../../tests/support/until.ts";
import { openWayOut } from "./way_out.ts";

const CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----";

/** The system's files, with variables of its own. */
class HostWith extends SystemFiles {
  readonly env: (name: string) => string | undefined;

  constructor(variables: Record<string, string>) {
    super();
    this.env = (name) => variables[name];
  }

  platform() {
    return { os: "linux", arch: "x64" };
  }
}

async function open(folder: string, env: Record<string, string>, bundle: string) {
  const set = new Map<string, string>();
  const trusted: string[] = [];
  const { problems } = await openWayOut(new HostWith(env), {
    authorities: `${folder}/svc-ca.pem`,
    bundle,
  }, {
    set: (name, value) => set.set(name, value),
    trust: (certificates) => trusted.push(...certificates),
  });
  return { problems, set, trusted };
}

Deno.test("openWayOut: a home that does not exist yet gets the file of all authorities", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-way-out-" });
  try {
    await Deno.mkdir(`${folder}/certs`);
    await Deno.writeTextFile(`${folder}/certs/one.pem`, CERTIFICATE);
    const bundle = `${folder}/home/.svc/authorities.pem`;
    const { problems, set, trusted } = await open(folder, { SSL_CERT_DIR: `${folder}/certs` }, bundle);
    assertEquals([problems, trusted], [[], [CERTIFICATE]]);
    assertEquals([await Deno.readTextFile(bundle), set.get("SSL_CERT_FILE")], [`${CERTIFICATE}\n`, bundle]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("openWayOut: a problem names where the authorities come from", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-way-out-" });
  try {
    await Deno.mkdir(`${folder}/certs`);
    await Deno.writeTextFile(`${folder}/certs/one.pem`, CERTIFICATE);
    await Deno.writeTextFile(`${folder}/home`, "a file where a folder should be");
    const bundle = `${folder}/home/authorities.pem`;
    const fromFolder = await open(folder, { SSL_CERT_DIR: `${folder}/certs` }, bundle);
    assertStringIncludes(fromFolder.problems.join(), "do not trust the authorities of SSL_CERT_DIR: ");
    assertEquals(fromFolder.trusted, [CERTIFICATE]);

    await Deno.writeTextFile(`${folder}/svc-ca.pem`, CERTIFICATE);
    const fromBoth = await open(folder, { SSL_CERT_DIR: `${folder}/certs` }, bundle);
    assertStringIncludes(fromBoth.problems.join(), `of ${folder}/svc-ca.pem and SSL_CERT_DIR: `);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

const OTHER = CERTIFICATE.replace("MIIB", "MIIC");

/** Opens the way of a program, and follows it; \`trusted\` has what it trusts at each change. */
async function follow(folder: string, env: Record<string, string>) {
  const host = new HostWith(env);
  const trusted: (readonly string[])[] = [];
  const way = await openWayOut(host, {
    authorities: `${folder}/svc-ca.pem`,
    bundle: `${folder}/authorities.pem`,
  }, { set: () => {}, trust: (certificates) => trusted.push(certificates) });
  const messages: string[] = [];
  const logs = new Logs(new SystemClock(), [({ message }) => void messages.push(message)]);
  const unfollow = way.follow(host, new SystemClock(), logs.logger("test"));
  return { trusted, messages, unfollow };
}

for (
  const { what, env, file } of [
    { what: "the device's own file", env: () => ({}), file: "svc-ca.pem" },
    {
      what: "the file of SSL_CERT_FILE",
      env: (folder: string) => ({ SSL_CERT_FILE: `${folder}/named.pem` }),
      file: "named.pem",
    },
    {
      what: "a folder of SSL_CERT_DIR",
      env: (folder: string) => ({ SSL_CERT_DIR: `${folder}/certs` }),
      file: "certs/one.pem",
    },
  ]
) {
  Deno.test(`WayOut.follow: an authority added to ${what} is trusted from then on`, async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-way-out-" });
    await Deno.mkdir(`${folder}/certs`);
    await Deno.writeTextFile(`${folder}/${file}`, CERTIFICATE);
    const { trusted, messages, unfollow } = await follow(folder, env(folder));
    try {
      assertEquals(trusted.map((one) => one.includes(CERTIFICATE)), [true]);

      // As careful programs write: a new file in place of the old one.
      await Deno.writeTextFile(`${folder}/new.pem`, `${CERTIFICATE}\n${OTHER}\n`);
      await Deno.rename(`${folder}/new.pem`, `${folder}/${file}`);
      await until(() => messages.length > 0, { found: () => `${trusted.length}` });
      assertEquals([CERTIFICATE, OTHER].map((one) => trusted[1]?.includes(one)), [true, true]);
      assertEquals(messages, ["the trusted authorities have changed"]);
    } finally {
      await unfollow();
      await Deno.remove(folder, { recursive: true });
    }
  });
}

Deno.test("WayOut.follow: a file that comes later counts, and a damaged one ends no trust", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-way-out-" });
  const { trusted, messages, unfollow } = await follow(folder, {});
  try {
    assertEquals(trusted, []);
    await Deno.writeTextFile(`${folder}/svc-ca.pem`, CERTIFICATE);
    await until(() => trusted.length === 1, { found: () => messages.join() });
    assertEquals(trusted[0]?.includes(CERTIFICATE), true);

    await Deno.writeTextFile(`${folder}/svc-ca.pem`, "no certificate");
    await until(() => messages.length === 2, { found: () => messages.join() });
    assertStringIncludes(messages[1]!, "svc-ca.pem are not trusted: found no certificate");
    assertEquals(trusted.length, 1);

    // The bundle of other programs is without it, too.
    await Deno.writeTextFile(`${folder}/svc-ca.pem`, OTHER);
    await until(() => trusted.length === 2, { found: () => messages.join() });
    assertEquals([CERTIFICATE, OTHER].map((one) => trusted[1]?.includes(one)), [false, true]);
    await until(
      async () => !(await Deno.readTextFile(`${folder}/authorities.pem`)).includes(CERTIFICATE),
      { found: () => messages.join() },
    );
  } finally {
    await unfollow();
    await Deno.remove(folder, { recursive: true });
  }
});
