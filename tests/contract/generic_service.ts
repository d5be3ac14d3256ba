import { GenericServiceApi } from "../../lib/api/services/generic_service.ts";
import type { Resource } from "../../lib/resource/resource.ts";
import type { Contract } from "./contract.ts";
import { genericCases } from "./generic.ts";

export const contract: Contract<Resource> = { api: GenericServiceApi, cases: genericCases };
