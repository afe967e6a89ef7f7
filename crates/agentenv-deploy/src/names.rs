//! Unique names of deploys: one file a name, made exclusively, holding the id of its deploy.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::PathBuf,
};

use agentenv_protocol::{DeployId, Home, Name};

fn folder(home: &Home) -> PathBuf {
    home.deploys().join("names")
}

/// Takes a name for a deploy; of many at once, one gets it, and the others the id that has it.
pub(crate) fn claim(home: &Home, name: &Name, id: &DeployId) -> io::Result<Result<(), Option<DeployId>>> {
    fs::create_dir_all(folder(home))?;
    // Written beside and linked, so that the file is never there without its content.
    let mut file = tempfile::NamedTempFile::new_in(folder(home))?;
    file.write_all(id.as_str().as_bytes())?;
    match fs::hard_link(file.path(), folder(home).join(name.as_str())) {
        Ok(()) => Ok(Ok(())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Err(holder(home, name))),
        Err(error) => Err(error),
    }
}

/// The deploy that has the name.
pub(crate) fn holder(home: &Home, name: &Name) -> Option<DeployId> {
    let text = fs::read_to_string(folder(home).join(name.as_str())).ok()?;
    DeployId::parse(text.trim()).ok()
}

/// Waits for a lock of the home's deploys, which is held until it is dropped.
pub(crate) fn lock(home: &Home, file: &str) -> io::Result<File> {
    let lock = File::options().create(true).truncate(false).write(true).open(home.deploys().join(file))?;
    lock.lock()?;
    Ok(lock)
}

/// Gives a name back, if this deploy has it. A lock keeps another release and claim from coming between look and removal.
pub(crate) fn release(home: &Home, name: &Name, id: &DeployId) -> io::Result<()> {
    let _lock = lock(home, "names.lock")?;
    if holder(home, name).as_ref() == Some(id) {
        fs::remove_file(folder(home).join(name.as_str()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_74_of_50_at_once_one_gets_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let name = Name::parse("demo").unwrap();
        let claims: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..50)
                .map(|_| {
                    scope.spawn(|| {
                        let id = DeployId::random();
                        (claim(&home, &name, &id).unwrap(), id)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let winners: Vec<_> = claims.iter().filter(|(claim, _)| claim.is_ok()).collect();
        let [(_, winner)] = winners[..] else { panic!("{} winners", winners.len()) };
        assert!(
            claims.iter().filter_map(|(claim, _)| claim.as_ref().err()).all(|holder| holder.as_ref() == Some(winner))
        );

        release(&home, &name, &DeployId::random()).unwrap();
        assert_eq!(holder(&home, &name).as_ref(), Some(winner), "another deploy cannot give it back");
        release(&home, &name, winner).unwrap();
        assert_eq!(holder(&home, &name), None);
    }
}
