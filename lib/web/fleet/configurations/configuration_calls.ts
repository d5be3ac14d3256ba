/** The control plane's calls on what configurations become, which no published library has. */

import { createPromiseClient, type Transport } from "@connectrpc/connect";
import { wireMessage, wireService } from "../../machine/link/wire.ts";

export interface ResolvedConfiguration {
  readonly configJson: string;
  readonly problems: readonly { readonly path: string; readonly message: string }[];
  readonly fragments: readonly { readonly fragmentId: string; readonly revision: string }[];
  /** Whether stars stand in place of secrets. */
  readonly isMasked: boolean;
}

export interface FragmentPart {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
  /** A revision or a tag; empty for the newest revision. */
  readonly version: string;
}

export interface FragmentParent {
  readonly fragmentId: string;
  readonly name: string;
  readonly version: string;
}

export interface PackagePart {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
  /** As it stands there; empty for none. */
  readonly version: string;
  /** Which brings the item; empty if the part names it itself. */
  readonly fragmentId: string;
  readonly fragmentName: string;
}

export interface ConfigurationCalls {
  listPackageUses(
    request: { readonly organizationId: string; readonly itemId: string; readonly pageToken?: string },
  ): Promise<
    {
      readonly parts: readonly PackagePart[];
      readonly nextPageToken: string;
      /** On the first page. */
      readonly fragments: readonly FragmentParent[];
    }
  >;
  resolveConfiguration(
    request: {
      readonly partId: string;
      /** In place of the saved text; for owners. */
      readonly configJson?: string;
      /** Only what this fragment becomes. */
      readonly fragmentId?: string;
      /** In place of that fragment's newest revision; for its owners. */
      readonly fragmentJson?: string;
    },
  ): Promise<ResolvedConfiguration>;
  listFragmentUses(
    request: { readonly fragmentId: string; readonly pageToken?: string },
  ): Promise<
    {
      readonly parts: readonly FragmentPart[];
      readonly nextPageToken: string;
      /** On the first page. */
      readonly fragments: readonly FragmentParent[];
    }
  >;
}

const PACKAGE = "svc.app.v1";

const Problem = wireMessage(`${PACKAGE}.ConfigurationProblem`, {
  path: [1, "string"],
  message: [2, "string"],
});
const Filled = wireMessage(`${PACKAGE}.FilledFragment`, {
  fragment_id: [1, "string"],
  revision: [2, "string"],
});
const Part = wireMessage(`${PACKAGE}.FragmentPart`, {
  part_id: [1, "string"],
  part_name: [2, "string"],
  machine_id: [3, "string"],
  machine_name: [4, "string"],
  version: [5, "string"],
});
const Parent = wireMessage(`${PACKAGE}.FragmentParent`, {
  fragment_id: [1, "string"],
  name: [2, "string"],
  version: [3, "string"],
});

const UsingPart = wireMessage(`${PACKAGE}.PackagePart`, {
  part_id: [1, "string"],
  part_name: [2, "string"],
  machine_id: [3, "string"],
  machine_name: [4, "string"],
  version: [5, "string"],
  fragment_id: [6, "string"],
  fragment_name: [7, "string"],
});
const UsingFragment = wireMessage(`${PACKAGE}.PackageFragment`, {
  fragment_id: [1, "string"],
  name: [2, "string"],
  version: [3, "string"],
});

const ConfigurationService = wireService(`${PACKAGE}.ConfigurationService`, {
  ResolveConfiguration: [
    wireMessage(`${PACKAGE}.ResolveConfigurationRequest`, {
      part_id: [1, "string"],
      config_json: [2, "string"],
      fragment_id: [3, "string"],
      fragment_json: [4, "string"],
    }),
    wireMessage(`${PACKAGE}.ResolveConfigurationResponse`, {
      config_json: [1, "string"],
      problems: [2, Problem, "repeated"],
      fragments: [3, Filled, "repeated"],
      is_masked: [4, "bool"],
    }),
  ],
  ListPackageUses: [
    wireMessage(`${PACKAGE}.ListPackageUsesRequest`, {
      organization_id: [1, "string"],
      item_id: [2, "string"],
      page_token: [3, "string"],
    }),
    wireMessage(`${PACKAGE}.ListPackageUsesResponse`, {
      parts: [1, UsingPart, "repeated"],
      next_page_token: [2, "string"],
      fragments: [3, UsingFragment, "repeated"],
    }),
  ],
  ListFragmentUses: [
    wireMessage(`${PACKAGE}.ListFragmentUsesRequest`, {
      fragment_id: [1, "string"],
      page_token: [2, "string"],
    }),
    wireMessage(`${PACKAGE}.ListFragmentUsesResponse`, {
      parts: [1, Part, "repeated"],
      next_page_token: [2, "string"],
      fragments: [3, Parent, "repeated"],
    }),
  ],
});

export function configurationCalls(transport: Transport): ConfigurationCalls {
  return createPromiseClient(ConfigurationService, transport) as unknown as ConfigurationCalls;
}
