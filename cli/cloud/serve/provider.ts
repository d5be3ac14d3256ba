/** Where people sign in elsewhere, as the flags of `svc-cloud serve` name it. */

import type { Clock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { ReadFiles } from "../../../lib/base/files/files.ts";
import { Secret } from "../../../lib/base/secret.ts";
import { IdentityProvider } from "../../../lib/cloud/accounts/provider.ts";
import type { Addresses } from "../../../lib/cloud/addresses/addresses.ts";
import { UsageError, type Values } from "../../flags.ts";
import type { PROVIDER_FLAGS } from "./flags.ts";

const DOMAIN = /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*$/;
const NAME_CHARS_MAX = 60;

export async function openProvider(
  { oidcIssuer, oidcClient, oidcSecretFile, oidcName, oidcDomain }: Values<typeof PROVIDER_FLAGS>,
  { main }: Pick<Addresses, "main">,
  files: Pick<ReadFiles, "readTextFile">,
  clock: Clock,
): Promise<IdentityProvider | undefined> {
  if (oidcIssuer === "" && oidcClient === "") {
    if (oidcSecretFile === "" && oidcName === "" && oidcDomain.length === 0) return undefined;
    throw new UsageError(
      "--oidc-issuer and --oidc-client: wanted with the other flags --oidc-…, found neither",
    );
  }
  if (oidcIssuer === "" || oidcClient === "") {
    throw new UsageError("--oidc-issuer and --oidc-client: wanted both, found one of them");
  }
  if (main === undefined) {
    throw new UsageError("--oidc-issuer: wanted with --public-url, to which the provider sends people back");
  }
  if (oidcName.length > NAME_CHARS_MAX) {
    throw new UsageError(
      `--oidc-name: found ${oidcName.length} characters, wanted at most ${NAME_CHARS_MAX}`,
    );
  }
  // A variable of the environment has one text.
  const domains = oidcDomain.flatMap((one) => one.split(",")).map((one) => one.trim().toLowerCase()).filter(
    Boolean,
  );
  const wrong = domains.find((one) => !DOMAIN.test(one));
  if (wrong !== undefined) {
    throw new UsageError(
      `--oidc-domain: found ${JSON.stringify(wrong)}, wanted a domain such as example.com`,
    );
  }
  const options = {
    issuer: oidcIssuer,
    clientId: oidcClient,
    clientSecret: await secretIn(oidcSecretFile, files),
    name: oidcName || (URL.parse(oidcIssuer)?.hostname ?? oidcIssuer),
    domains,
    publicUrl: main,
  };
  try {
    return new IdentityProvider(options, clock);
  } catch (error) {
    throw new UsageError(`--oidc-issuer: ${SvcError.from(error).message}`);
  }
}

async function secretIn(
  file: string,
  files: Pick<ReadFiles, "readTextFile">,
): Promise<Secret | undefined> {
  if (file === "") return undefined;
  const secret = (await files.readTextFile(file)).trim();
  if (secret !== "") return new Secret(secret);
  throw new SvcError("invalid_argument", `--oidc-secret-file: ${file} is empty, wanted the client's secret`);
}
