import { assertEquals, assertStringIncludes } from "@std/assert";
import { SystemFiles } from "./files/system_files.ts";
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
  const problems = await openWayOut(new HostWith(env), {
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
