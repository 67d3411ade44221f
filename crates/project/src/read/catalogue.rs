//! Finds catalogues, which entries name like blocks: `block: available_skills`.

use contexture_compose::Entry;
use contexture_compose::tags::block_tag_name;

use contexture_capabilities::memory::MEMORY_CATALOGUE;
use contexture_capabilities::{ARTIFACT_CATALOGUE, CATALOGUE, SKILL_CATALOGUE, artifact_catalogue};

use crate::read::knowledge;
use crate::read::reader::Reader;
use crate::read::skills;

/// The catalogues that a project has.
pub(super) const CATALOGUES: [&str; 4] = [ARTIFACT_CATALOGUE, CATALOGUE, MEMORY_CATALOGUE, SKILL_CATALOGUE];

/// Returns the catalogue whose tag it is.
pub(super) fn catalogue(reader: &mut Reader<'_>, tag: &str) -> Option<Entry> {
    let is_tag = |name: &str| block_tag_name(name).is_ok_and(|it| it == tag);
    let lookup = reader.lookup;
    Some(match CATALOGUES.into_iter().find(|it| is_tag(it))? {
        CATALOGUE => {
            knowledge::depends(reader);
            Entry::Block(lookup.knowledge.catalogue())
        }
        ARTIFACT_CATALOGUE => artifact_catalogue(lookup.knowledge.artifacts()),
        SKILL_CATALOGUE => {
            skills::depends(reader);
            lookup.skills.entry().as_context()
        }
        _ => Entry::Block(lookup.knowledge.memory_catalogue()),
    })
}
